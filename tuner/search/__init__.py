"""Design spaces and the search over them. The main process handles decisions; TVM stays in children."""
