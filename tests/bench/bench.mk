# bench.mk - programs and scripts that measure; none is part of check.
.PHONY: bench-cv bench-llm bench-slurm bench-ctld bench-soak bench-short bench-history \
        bench-retention bench-text gpu-model sim-bench sim-ablation

$(B)/tests/bench/%: $(B)/obj/tests/bench/%.o $(call libs,kernels)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_kernels) $(LDLIBS)
$(B)/tests/bench/store: $(B)/obj/tests/bench/store.o $(call libs,db)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_db) $(LDLIBS)
$(addprefix $(B)/tests/bench/,plan fill load goodput): $(B)/tests/bench/%: \
    $(B)/obj/tests/bench/%.o $(call libs,engine)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_engine) $(LDLIBS)
$(B)/tests/bench/rank: $(B)/obj/tests/bench/rank.o $(call libs,base)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_base) $(LDLIBS)
# The clocks of who preloads it go as fast as it is told.
$(B)/tests/bench/preload/%.so: tests/bench/preload/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(cppflags) -std=c11 $(CFLAGS) $(warn) -shared -fPIC -o $@ $< -lm
$(B)/tests/bench/metrics: $(B)/obj/tests/tap.o
$(B)/tests/bench/llm_step: $(B)/obj/tests/bench/llm_parts.o
$(addprefix $(B)/tests/bench/,cv_step decode gpu_step layers llm_generate llm_step metrics \
    report text): \
    $(B)/tests/bench/%: \
    $(B)/obj/tests/bench/%.o $(call libs,worker)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_worker) $(LDLIBS)

# Steps on an H100 and an H200, predicted from the launches of the worker and
# the machine code of their kernels. CHECK=1: fails if a goal is missed.
# LAUNCHES=1: each of them. MEASURED=: the .tsv of a gpu-bench, to compare.
$(B)/tests/bench/gpu_model: $(patsubst %,$(B)/obj/tests/bench/%.o, \
                          gpu_model gpu_shared gpu_table gpu_text gpu_time) \
                          $(step_objs) \
                          $(call libs,worker)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) -no-pie $(ldlibs_worker) $(LDLIBS)
model_code := $(patsubst %.cu,$(B)/cuda/%.o,$(wildcard kernels/cv/*.cu \
                kernels/llm/*.cu kernels/ops/*.cu))
gpu-model: $(B)/tests/bench/gpu_model $(if $(plugin),$(model_code))
	$(if $(plugin),,@echo 'gpu-model: not run: no nvcc' >&2; exit 77)
	$(Q)NVCC='$(NVCC)' sh tests/bench/gpu_model.sh $< $(model_code) -- \
	    $(if $(CHECK),--check) $(if $(LAUNCHES),--launches) \
	    $(if $(MEASURED),'$(MEASURED)')
# What gpu-bench and first-contact print beside what they measure; without a
# disassembler a line that says so.
predictions := $(B)/tests/gpu/predictions.tsv
$(predictions): $(B)/tests/bench/gpu_model $(if $(plugin),$(model_code)) \
                tests/gpu/steps.txt
	@mkdir -p $(@D)
	$(call say,MODEL,$@)
	$(Q)NVCC='$(NVCC)' sh tests/bench/gpu_model.sh $< \
	    $(if $(plugin),$(model_code)) -- --table tests/gpu/steps.txt >$@.new || \
	    { [ $$? -eq 77 ] && echo '# no predictions: no nvcc or cuobjdump' >$@.new; }
	$(Q)mv $@.new $@

# Against PyTorch on the same cores.
bench-cv: $(B)/tests/bench/cv_step $(B)/tests/bench/metrics
	$(Q)MGPU_BENCH=$(abspath $(B)/tests/bench) tests/bench/cv.sh
	$(Q)GOMP_SPINCOUNT=2000 $(B)/tests/bench/metrics $(shell nproc) # as ranks

# Steps of a Llama on the host, against transformers and PEFT.
bench-llm: $(addprefix $(B)/tests/bench/,llm_step llm_generate) $(B)/bin/mgpu-worker
	$(Q)MGPU_BENCH=$(abspath $(B)/tests/bench) tests/bench/llm.sh
# The scheduler on published traces; PHILLY=1: October 2017 as well; MGPU_TRACES: a
# folder with logs in the Standard Workload Format.
sim-bench: $(B)/bin/mgpu-sim $(B)/tests/bench/goodput
	$(Q)MGPU_BIN=$(abspath $(B)/bin) SUITES="$(SUITES)" \
	    tests/bench/sim/goodput.sh
	$(Q)MGPU_BIN=$(abspath $(B)/bin) tests/bench/sim/attacks.sh
	$(Q)MGPU_BIN=$(abspath $(B)/bin) tests/bench/sim/cases.sh
	$(Q)MGPU_BIN=$(abspath $(B)/bin) tests/bench/sim/truth.sh
	$(Q)$(B)/tests/bench/goodput
	$(Q)MGPU_BIN=$(abspath $(B)/bin) PHILLY=$(PHILLY) \
	    MGPU_TRACES='$(MGPU_TRACES)' tests/bench/sim.sh

# goodput without one of its terms: a changed copy of a source each. A change that
# changes nothing is an error.
ablated := $(patsubst tests/bench/sim/ablation/%.sed,$(B)/ablation/%/mgpu-sim,\
             $(wildcard tests/bench/sim/ablation/*.sed))
$(ablated): $(B)/ablation/%/mgpu-sim: tests/bench/sim/ablation/%.sed \
    $(B)/obj/scheduler/sim/main.o $(call libs,sim)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)source=$$(sed -n '1s/^# //p' $<) && \
	    sed -f $< "$$source" >$(@D)/changed.c && ! cmp -s "$$source" $(@D)/changed.c
	$(Q)$(CC) $(cppflags) $(cflags) -c -o $(@D)/changed.o $(@D)/changed.c
	$(Q)$(CC) $(cflags) $(LDFLAGS) -o $@ $(@D)/changed.o $(filter %.o %.a,$^) \
	    $(ldlibs_sim) $(LDLIBS)
sim-ablation: $(B)/bin/mgpu-sim $(ablated)
	$(Q)MGPU_BIN=$(abspath $(B)/bin) MGPU_ABLATION=$(abspath $(B)/ablation) \
	    SUITES="$(SUITES)" tests/bench/sim/ablation.sh

# 64 nodes of 8 GPUs in name, 1000 jobs in the queue.
bench-slurm: all
	$(Q)MGPU_BIN=$(abspath $(B)/bin) tests/bench/slurm.sh
# What the daemon carries: submits, rows, watchers, a long queue, a long past.
bench-ctld: all $(addprefix $(B)/tests/bench/,plan fill load)
	$(Q)MGPU_BIN=$(abspath $(B)/bin) MGPU_BENCH=$(abspath $(B)/tests/bench) \
	    tests/bench/ctld.sh
# Short jobs and readers without end: memory, descriptors, logs.
bench-soak: all $(addprefix $(B)/tests/bench/,load rank preload/clock.so)
	$(Q)MGPU_BIN=$(abspath $(B)/bin) MGPU_BENCH=$(abspath $(B)/tests/bench) \
	    tests/bench/soak.sh $(or $(SECONDS),600) $(or $(N),0) $(or $(HOLD),5)
# Jobs that ended and their rows: what it costs to look at a few of them.
bench-short: all
	$(Q)MGPU_BIN=$(abspath $(B)/bin) MGPU_BENCH=$(abspath $(B)/tests/bench) \
	    tests/bench/short.sh $(or $(N),400) $(or $(SLOTS),16)

bench-history: all $(addprefix $(B)/tests/bench/,fill load)
	$(Q)MGPU_BIN=$(abspath $(B)/bin) MGPU_BENCH=$(abspath $(B)/tests/bench) \
	    tests/bench/history.sh $(or $(N),100000) $(or $(ROWS),10000000)

# Rows of jobs that ended long ago go while others come.
bench-retention: all $(addprefix $(B)/tests/bench/,fill load)
	$(Q)MGPU_BIN=$(abspath $(B)/bin) MGPU_BENCH=$(abspath $(B)/tests/bench) \
	    tests/bench/retention.sh $(or $(ROWS),10000000) $(or $(SECONDS),20)

# Tokens/s of one thread against tiktoken's and HF's, which PYTHON has. MODEL is
# a list of ranks, JSON a tokenizer.json, TEXT any text. DIR has alpaca and
# llama3-tokenizer, which may not be shipped: the same with these, and the
# seconds that 52,000 rows of alpaca take.
TEXT  ?= $(if $(DIR),$(DIR)/alpaca/alpaca_random_9k.json,docs/reliability.md)
MODEL ?= $(if $(DIR),$(DIR)/llama3-tokenizer,tests/data/torchtune/small)/tokenizer.model
JSON  ?= $(if $(DIR),$(B)/tests/bench,tests/data/torchtune/small)/tokenizer.json
bench-text: $(B)/tests/bench/text $(if $(DIR),$(B)/bin/mgpu-model)
	$(if $(DIR),$(Q)gzip -dc '$(DIR)/llama3-tokenizer/tokenizer.llama3.json.gz' \
	    >$(B)/tests/bench/tokenizer.json)
	$(if $(DIR),$(Q)MGPU_BIN=$(abspath $(B)/bin) tests/bench/text_rows.sh '$(DIR)')
	$(Q)$(B)/tests/bench/text '$(TEXT)' '$(MODEL)' '$(JSON)'
	$(Q)OMP_NUM_THREADS=1 RAYON_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false \
	    $(or $(PYTHON),python3) tests/golden/token_ids.py --bench '$(TEXT)' \
	    '$(MODEL)' '$(JSON)'
