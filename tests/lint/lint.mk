# lint.mk - static checks.
.PHONY: lint

c_files := $(shell find jobs scheduler worker kernels db slurm tests \
             -name '*.[ch]' 2>/dev/null)
tidy_files := $(filter-out tests/%,$(filter %.c,$(c_files)))
tidy_files := $(filter-out $(absent),$(tidy_files))
# Headers that are C++, or parts of one file.
not_alone := tests/simt/% tests/step/recorder.h kernels/exec/exec%.h kernels/exec/simd%.h \
             kernels/cv/%_rows.h kernels/cv/%_walk.h kernels/cv/%_mma.h \
             kernels/llm/attention_%.h \
             $(if $(filter 0,$(CUPTI)),%_cupti.h)
# How many states of a function the analyzer goes through: as it does itself. A
# third of them takes a third of the time.
LINT_NODES ?= 225000
tidy_args := $(foreach a,-analyzer-config max-nodes=$(LINT_NODES),\
               --extra-arg=-Xclang --extra-arg=$(a))
# The machine code of every kernel, where this machine has nvcc and a
# disassembler; else it says which is missing.
lint_sass = sh tests/lint/sass.sh --self-test && sh tests/lint/sass.sh \
    $(patsubst %.cu,$(B)/cuda/%.o,$(filter-out %_cuda.cu, \
    $(filter %.cu,$(plugin_src)))) || [ $$? -eq 77 ]
comma := ,
space := $(subst ,, )
# LAYER:FOLDER,FOLDER... of a layer's folder and its rooms
layer_row = $(1):$(subst $(space),$(comma),$(strip $(patsubst $(1)/%,%, \
    $(filter $(1)/%,$(2)))))
layer_rows = $(foreach d,jobs kernels db slurm,$(call \
    layer_row,$d,$(rooms_$d))) $(foreach d,policy engine ctld tools web sim,$(call \
    layer_row,scheduler/$d,$(rooms_$d))) \
    $(call layer_row,worker,$(rooms_worker)) worker/model_tool:
lint: all
	$(Q)sh tests/lint/layers.sh
	$(Q)sh tests/lint/size.sh
	$(Q)sh tests/lint/rooms.sh --self-test
	$(Q)sh tests/lint/rooms.sh $(B)/obj
	$(Q)sh tests/lint/docs.sh --self-test
	$(Q)sh tests/lint/docs.sh $(layer_rows)
	$(Q)sh tests/lint/prose.sh --self-test
	$(Q)sh tests/lint/prose.sh
	$(Q)sh tests/lint/sql.sh --self-test
	$(Q)sh tests/lint/sql.sh
	$(Q)sh tests/lint/checked.sh --self-test
	$(Q)sh tests/lint/checked.sh
	$(Q)sh tests/lint/tables.sh --self-test
	$(Q)sh tests/lint/tables.sh
	$(Q)sh tests/lint/page.sh --self-test
	$(Q)sh tests/lint/page.sh
	$(if $(plugin),$(Q)$(lint_sass))
	$(Q)printf '%s\n' $(filter-out $(not_alone),$(filter %.h,$(c_files))) | \
	    xargs -P $(JOBS) -I FILE $(CC) $(cppflags) $(mpi_cflags) \
	    $(cuda_cflags) -std=c11 -fsyntax-only -x c FILE
	$(Q)clang-format --dry-run -Werror $(c_files)
	$(Q)printf '%s\n' $(tidy_files) | xargs -P $(JOBS) -I FILE \
	    clang-tidy --quiet $(tidy_args) FILE -- $(cppflags) $(mpi_cflags) \
	    $(cuda_cflags) $(dnnl_cppflags) -std=c11
	$(Q)cppcheck -j $(JOBS) --quiet --error-exitcode=1 --inline-suppr --std=c11 -I. \
	    --enable=warning,performance,portability $(filter %.c,$(c_files))
	$(Q)shellcheck tests/lint/*.sh .ci/run .ci/deps .ci/nightly .ci/debian13 .ci/stage.sh contrib/deb/build contrib/notify/* jobs/examples/*.sh \
	    scheduler/tools/completion.bash tests/slurm/testbed \
	    tests/bench/*.sh tests/bench/sim/*.sh tests/gpu/*.sh tests/gpu/first-contact tests/systemd/*.sh \
	    tests/portability/*.sh tests/fuzz/run tests/run tests/tally tests/web/run tests/python/run tests/*/*.bash tests/simt/mutate
	$(Q)! grep -nE '^ *! ' tests/*/*.bats tests/*/*.bash | \
	    grep -v ' || ' || { echo 'what begins with ! cannot fail'; exit 1; }
	$(Q)! grep -rnE 'error_sys\([^"]*"[a-z_0-9]+"\)' --include=*.c \
	    jobs db slurm scheduler kernels | grep -vE '"(sync|open)"' || \
	    { echo 'a call is no reason: say what failed'; exit 1; }
	$(Q)! grep -rnE '(fopen\([^)]*"r|open(at)?\([^;]*O_RDONLY)' --include=*.c \
	    worker jobs | grep -vE \
	    'O_DIRECTORY|O_NONBLOCK|O_CREAT|"/dev/null"|jobs/base/buf.c' || \
	    { echo 'plain_file.h opens what is read'; exit 1; }
	$(Q)codespell -q 3 -L inout,nd,trian,nmae,comand,gird,runing,dout \
	    --skip '*.txt,*.jsonl,*.gz,*/tokenizer.json,./build,./tests/fuzz/seeds,./LICENSE,./.git' .
	$(Q)for m in $(pages); do groff -mdoc -ww -z $$m || exit 1; \
	    mandoc -T lint -W warning $$m || exit 1; done
