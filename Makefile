# Each task is a line of scripts/dev, which also works where there is no make.
TASKS := demo test test-all lint types size lock clean install install-dev

.PHONY: $(TASKS)
$(TASKS):
	@bash scripts/dev $@
