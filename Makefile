# Makefile - the build. Tests, benchmarks, fuzz targets, static checks and the
# package have a file each, which this one includes; there is no configure.
#
#   make                  programs            make check       all tests
#   make demo             the README's demo   make lint        static checks
#   make demo-llm          LoRA of a Llama      make demo-torch  PyTorch, resized
#   make demo-elastic      a long job makes room for short ones, and grows back
#   make check-slurm      part of check         make demo-slurm  on a cluster
#   make asan|tsan|cov    checked variants    make fuzz        SECONDS= each
#   make install          DESTDIR= prefix=    make deps        Debian packages
#   make gpu-check         kernels on a GPU    make gpu-bench    and their speed
#   make gpu-model         their speed as predicted, without a GPU
#   make gpu-bundle        both, for a machine that has nothing of ours
#   make gpu-first-contact  is it right, how fast, on a GPU that has run none of it
#   make check-races       every kernel, watched for races in the emulator
#   make check-processors  numbers with the instructions of other processors
#   make check-mutants     bugs in kernels, on purpose, that check has no time for
#   make cuda12-check      compiles for CUDA 12.4, in a chroot of Debian 13
#   make deb               a Debian package, build/deb/*.deb
#   make wheel             mgpu.py for pip     make python-check  its tests
#   make debian13-check    half of check, and the demos, on Debian 13
#   make systemd-check     that package under a systemd, in a virtual machine
#   make bench-slurm       a large cluster     make bench-cv     against PyTorch
#   make bench-llm         LoRA, against PyTorch
#   make bench-ctld        what it carries     make crash ROUNDS=N    kill it
#   make resizes           random schedules of resizes: ROUNDS=N, SEED=
#   make bench-soak        for long: SECONDS=, N=jobs, HOLD= a reader's seconds,
#                          FAST= times as fast as our clock is the daemon's
#   make bench-short       what a start costs: N=jobs, SLOTS=
#   make bench-history     a long past: N=jobs, ROWS= of metrics
#   make sim-bench         the scheduler on published traces: PHILLY=1
#   make sim-ablation      its policy goodput, with one term left out: SUITES=
#   make bench-retention   and its end: ROWS= that go while others come
#   make coverage          what the tests execute
#   make fault             let each call of the daemon and of the tools fail
#   make CUDA=0 ...       leave a part out    make V=1         show commands

prefix  ?= /usr/local
bindir  ?= $(prefix)/bin
sbindir ?= $(prefix)/sbin
libdir  ?= $(prefix)/lib
mandir  ?= $(prefix)/share/man
datadir ?= $(prefix)/share

# Kernels with lines for a debugger, and no more: a quarter less to compile.
CFLAGS   ?= $(if $(san),-O1 -g1,-O2 -g)
CXXFLAGS ?= -O3 -g1
VARIANT  ?= release
B        := build/$(VARIANT)
Q        := $(if $(V),,@)
say       = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))

# What this machine has. `make CUDA=1` on one without it is an error, not a
# silently smaller program.
NVCC  ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) nvcc)
CUDA  ?= $(if $(shell command -v $(NVCC)),1,0)
CUDA_ARCH ?= 90
# The compiler for the host's part of a .cu, where nvcc does not accept the
# default one: nvcc 12.4 takes gcc up to 13. Debian's package knows its own.
NVCC_CCBIN ?=
# Headers alone: CUPTI and NVTX are opened at run time, by nvToolsExt.h itself.
# Beside nvcc, or where NVIDIA and Debian have them.
cuda_include := $(patsubst %/cuda.h,%,$(firstword $(wildcard $(addsuffix \
                  /cuda.h,$(patsubst %/bin/nvcc,%/include,$(filter \
                  %/bin/nvcc,$(shell command -v $(NVCC)))) \
                  /usr/local/cuda/include /usr/include))))
# The compiler's own folder must not be named: #include_next would miss it.
cuda_cflags  := $(addprefix -isystem ,$(filter-out /usr/include,$(cuda_include)))
CUPTI ?= $(if $(wildcard $(cuda_include)/cupti.h),1,0)
NVTX  ?= $(if $(wildcard $(cuda_include)/nvtx3/nvToolsExt.h),1,0)
NCCL  ?= $(if $(wildcard /usr/include/nccl.h $(cuda_include)/nccl.h),$(CUDA),0)
SLURM ?= $(if $(wildcard /usr/include/slurm/slurm.h),1,0)
MUNGE ?= $(if $(wildcard /usr/include/munge.h),1,0)
# Opened at run time under the name that a program that links it would ask for.
dnnl_library := $(shell objdump -p "$$($(CC) -print-file-name=libdnnl.so)" \
                  2>/dev/null | awk '$$1 == "SONAME" { print $$2 }')
DNNL  ?= $(if $(and $(wildcard /usr/include/dnnl.h),$(dnnl_library)),1,0)
dnnl_cppflags := -DHAVE_DNNL=$(DNNL) -DDNNL_LIBRARY='"$(dnnl_library)"'

# ---- flags ----------------------------------------------------------------
WERROR ?= -Werror
warn := -Wall -Wextra -Wpedantic $(WERROR) -Wshadow -Wconversion -Wvla \
        -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
        -Wwrite-strings -Wpointer-arith -Wundef -Wformat=2 \
        -Wimplicit-fallthrough -fno-common
harden_release := -D_FORTIFY_SOURCE=2 -fstack-protector-strong \
        -fstack-clash-protection
ldharden_release := -Wl,-z,relro,-z,now
san_asan  := -fsanitize=address,undefined -fno-sanitize-recover=all
san_tsan  := -fsanitize=thread
san_cov   := --coverage
san       := $(if $(san_$(VARIANT)),$(san_$(VARIANT)) -fno-omit-frame-pointer)

cppflags = -I. -D_GNU_SOURCE -DHAVE_CUDA=$(CUDA) -DHAVE_NCCL=$(NCCL) \
           -DHAVE_CUPTI=$(CUPTI) -DHAVE_NVTX=$(NVTX) \
           -DHAVE_SLURM=$(SLURM) -DHAVE_MUNGE=$(MUNGE) \
           -DHAVE_WIDE=$(WIDE) $(CPPFLAGS)
cflags   = -std=c11 $(CFLAGS) $(warn) $(harden_$(VARIANT)) $(san)
# The host build of the kernels: x86-64-v3 is the floor, MARCH=native an
# option. With the floor there is a second, wide build beside it, taken on
# machines that have AVX-512. Signed zeros and NaN keep their meaning. Tiles of
# registers under a sanitizer take minutes to compile with -O3; a fifth of the
# time with -O1 went into tracking variables, and another into what a debugger
# wants beyond lines.
MARCH   ?= $(if $(filter x86_64,$(shell uname -m)),x86-64-v3,native)
march   := $(MARCH)
WIDE    := $(if $(filter x86-64-v3,$(MARCH)),1,0)
ksan      = $(if $(san),-O1 -g1)
kflags   = -x c++ -std=c++17 $(CXXFLAGS) $(ksan) -march=$(march) -fopenmp \
           -fno-math-errno -fno-trapping-math -fno-exceptions -fno-rtti \
           -Wall -Wextra $(WERROR) -Wno-psabi $(san)
# A shim in C++ may catch what its library throws.
cxxflags = -std=c++17 $(CXXFLAGS) -Wall -Wextra $(WERROR) \
           $(harden_$(VARIANT)) $(san)
ccbin    = $(addprefix -ccbin ,$(NVCC_CCBIN))
nvflags  = $(ccbin) -O3 -g -std=c++17 \
           -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra \
           $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) \
           -gencode arch=compute_$(lastword $(CUDA_ARCH)),code=compute_$(lastword $(CUDA_ARCH))

# ---- layers: name, folder, and the layers below it, nearest first ---------
layers := base jobs kernels db slurm policy engine ctld tools web sim worker model

# The folders of a layer, lowest first: each may call those before it and the
# layers below. Each is an archive, and must link with no more than that
# ($(B)/lib/%.closed).
under = $(addprefix $(1)/,$(2))
rooms_base    := jobs/base jobs/http
rooms_jobs    := jobs $(call under,jobs,text schema spec wire conf log advice)
rooms_kernels := $(call under,kernels,exec ops cv llm) kernels
rooms_db      := db db/mem db/sqlite
rooms_slurm   := slurm $(call under,slurm,launch as_user protocol local fake \
                   cluster batch helper)
rooms_policy  := scheduler/policy
rooms_engine  := $(call under,scheduler/engine,events table store rules plan \
                   attempts requests) scheduler/engine
rooms_ctld    := $(call under,scheduler/ctld,loop startup request notify \
                   curve_data maintenance usage ingest job_list curves efficiency api) \
                   scheduler/ctld
rooms_tools   := $(call under,scheduler/tools,common admin cancel views \
                   export stat submit)
rooms_web     := scheduler/web
rooms_sim     := $(call under,scheduler/sim,trace past run output) scheduler/sim
rooms_worker  := $(call under,worker,comm report process profile \
                   checkpoint data/image data/rows data/tokenizer data/chat \
                   data/text data/cache data cv llm/config llm/files llm/batches llm \
                   llm/gguf train) worker

rooms_model   := worker/model_tool

below_jobs    := base
below_kernels := base
below_db      := jobs base
below_slurm   := jobs base
below_policy  := jobs base
below_engine  := policy slurm db jobs base
below_ctld    := engine policy slurm db jobs base
below_tools   := jobs base
below_web     := tools jobs base
below_sim     := tools engine policy slurm db jobs base
below_worker  := kernels jobs base
below_model   := worker tools kernels jobs base

# Composition roots: one program each, in no archive.
mains := scheduler/ctld/main.c scheduler/tools/submit/submit.c \
         scheduler/tools/stat/stat.c scheduler/tools/cancel/cancel.c \
         scheduler/tools/admin/admin.c \
         scheduler/sim/main.c scheduler/web/main.c slurm/batch/batch.c slurm/local/shepherd.c \
         slurm/local/gpuwatch.c slurm/helper/helper.c \
         worker/main.c worker/model_tool/main.c

# A file named *_cuda.cu, *_nccl.c, *_slurm.c ... is the only kind that may
# include that library; leaving the library out leaves the file out. CUDA
# files are in the plug-in, not in an archive. C++ is what a library of C++
# needs to be called from C: *.cpp, one file each.
absent := %_cuda.cu %_cuda.c $(if $(filter 0,$(NCCL)),%_nccl.c) \
          $(if $(filter 0,$(CUPTI)),%_cupti.c) \
          $(if $(filter 0,$(NVTX)),%_nvtx.c) \
          $(if $(filter 0,$(SLURM)),%_slurm.c) \
          $(if $(filter 0,$(MUNGE)),%_munge.c) \
          $(if $(filter 0,$(DNNL)),%_dnnl.c)

# Of a folder, and of a layer.
room_srcs = $(filter-out $(absent) $(mains),$(sort $(wildcard $(1)/*.c \
              $(1)/*.cu $(1)/*.cpp)))
srcs  = $(foreach r,$(rooms_$(1)),$(call room_srcs,$(r)))
wide  = $(if $(filter 1,$(WIDE)),$(filter-out %_cuda.cu,$(filter %.cu,$(1))))
objs  = $(patsubst %,$(B)/obj/%.o,$(basename $(call room_srcs,$(1)))) \
        $(patsubst %.cu,$(B)/wide/%.o,$(call wide,$(call room_srcs,$(1))))
lib   = $(B)/lib/$(subst /,-,$(1)).a
# Highest first.
reverse = $(if $(1),$(call reverse,$(wordlist 2,$(words $(1)),$(1))) \
            $(firstword $(1)))
libs_of = $(foreach r,$(call reverse,$(1)),$(call lib,$(r)))
libs    = $(foreach l,$(1) $(below_$(1)),$(call libs_of,$(rooms_$(l))))

# ---- what each layer links; static archives pull only what is used --------
mpi_cflags = $(shell mpicc --showme:compile 2>/dev/null)
mpi_libs   = $(shell mpicc --showme:link 2>/dev/null)

ldlibs_base    := -lcurl -levent -ljansson -lcrypto \
                  $(if $(filter 1,$(MUNGE)),-lmunge) -lpthread -lm
ldlibs_jobs    := -lyaml $(ldlibs_base)
ldlibs_kernels := -fopenmp -lstdc++ -ldl -lm -lpthread
ldlibs_db      := -lsqlite3 $(ldlibs_jobs)
ldlibs_slurm   := $(ldlibs_jobs)
# libslurm is GPL; the one program that links it is separate for that, too.
ldlibs_helper  := -lslurm $(ldlibs_slurm)
ldlibs_policy  := $(ldlibs_jobs)
ldlibs_engine  := -lsqlite3 $(ldlibs_jobs)
ldlibs_ctld    := -lsqlite3 $(ldlibs_jobs)
ldlibs_tools   := $(ldlibs_jobs)
ldlibs_web     := $(ldlibs_jobs)
ldlibs_sim     := -lz $(ldlibs_engine)
ldlibs_model    = $(ldlibs_worker)
ldlibs_worker   = $(mpi_libs) $(ldlibs_kernels) -ljpeg -lpng -lz \
                  -lsentencepiece -lpcre2-8 -lutf8proc -lstdc++ $(ldlibs_jobs)

# ---- programs and tests ----------------------------------------------------
bins := $(patsubst %,$(B)/bin/mgpu-%,batch ctld shepherd gpuwatch worker \
          submit stat cancel admin web sim model)
bins := $(foreach b,$(bins),$(if $(wildcard $(filter \
          %/$(patsubst mgpu-%,%,$(notdir $(b))).c \
          $(if $(filter %ctld,$(b)),%ctld/main.c) \
          $(if $(filter %sim,$(b)),scheduler/sim/main.c) \
          $(if $(filter %web,$(b)),scheduler/web/main.c) \
          $(if $(filter %worker,$(b)),worker/main.c) \
          $(if $(filter %model,$(b)),worker/model_tool/main.c),$(mains))),$(b)))
bins += $(if $(filter 1,$(SLURM)),$(B)/bin/mgpu-slurm-helper)
plugin := $(if $(filter 1,$(CUDA)),$(B)/lib/libmgpu-cuda.so)
schema := $(B)/share/mgpu.schema.json

.PHONY: all demo demo-run demo-llm demo-llm-run demo-torch demo-torch-run \
        demo-elastic demo-elastic-run demo-slurm demo-slurm-run deps clean FORCE
.DELETE_ON_ERROR:
.SUFFIXES:

all: $(bins) $(plugin) $(schema)

# Objects depend on the flags they were built with, archives on the list of
# sources: change either and what it touches is rebuilt, and nothing else.
flags := $(CC) $(cppflags) $(cuda_cflags) $(cflags) $(CXX) $(kflags) \
         $(cxxflags) $(NVCC) $(nvflags)
files := $(foreach l,$(layers),$(call srcs,$(l)))
dnnl := $(DNNL) $(dnnl_library)
$(B)/flags $(B)/files $(B)/dnnl $(B)/web_page: $(B)/%: FORCE
	@mkdir -p $(@D)
	@echo '$($*)' | cmp -s - $@ || echo '$($*)' > $@
FORCE:

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(cppflags) $(cflags) -MMD -MP -c -o $@ $<
# The schemas, the papers' numbers, and the style and script of reports are in
# these by .incbin, which -MMD does not see.
$(B)/obj/db/sqlite/schema_sqlite.o: $(wildcard db/schema/*.sql)
$(B)/obj/scheduler/tools/export/paper_results.o: $(wildcard jobs/paper/*.csv)
$(B)/obj/scheduler/tools/export/html_page.o: \
	$(wildcard scheduler/tools/export/report.css \
	  scheduler/tools/export/report.js)
# So are the files of mgpu-web's page; the list of them is made here.
# A name has a dot, and that of a folder has none.
web_page := $(sort $(wildcard $(addprefix scheduler/web/page/,*.* */*.*)))
$(B)/gen/web_page.inc: $(B)/web_page
	@mkdir -p $(@D)
	$(Q)for f in $(web_page:scheduler/web/page/%=%); do n=$$((n + 1)); \
	    echo "EMBED($$n, \"$$f\")"; done >$@
$(B)/obj/scheduler/web/web_files.o: $(B)/gen/web_page.inc $(web_page)
$(B)/obj/scheduler/web/web_files.o: \
	cppflags += -DWEB_PAGE='"$(B)/gen/web_page.inc"'
$(B)/obj/%_mpi.o $(B)/obj/tests/mpi/%.o $(B)/obj/worker/main.o: \
	cppflags += $(mpi_cflags)
# Of four files alone, so that no other one depends on it.
$(patsubst %,$(B)/obj/kernels/%.o,blas_host gemm_host gemm_dnnl \
  gemm_wide_dnnl): $(B)/dnnl
$(patsubst %,$(B)/obj/kernels/%.o,blas_host gemm_host gemm_dnnl \
  gemm_wide_dnnl): \
	cppflags += $(dnnl_cppflags)
# A team shares the pieces of a product.
$(B)/obj/kernels/gemm_host.o: cflags += -fopenmp
$(B)/obj/%_nccl.o $(B)/obj/%_cupti.o $(B)/obj/%_nvtx.o: \
	cppflags += $(cuda_cflags)

# One source, four builds (kernels/README.md): host, wide, CUDA,
# SIMT emulator.
$(B)/obj/%.o: %.cu $(B)/flags
	@mkdir -p $(@D)
	$(call say,KC,$<)
	$(Q)$(CXX) $(cppflags) $(kflags) -MMD -MP -c -o $@ $<
$(B)/wide/%.o: march := x86-64-v4
$(B)/wide/%.o: %.cu $(B)/flags
	@mkdir -p $(@D)
	$(call say,KC+,$<)
	$(Q)$(CXX) $(cppflags) -DMGPU_WIDE $(kflags) -MMD -MP -c -o $@ $<
$(B)/cuda/%.o: %.cu $(B)/flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(cppflags) $(nvflags) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
$(B)/cuda/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(cppflags) $(cflags) -fPIC -fvisibility=hidden \
	    $(cuda_cflags) -MMD -MP -c -o $@ $<
# Half the time to compile, and little to run; so are the checks of ASan by
# calls.
$(B)/simt/%.o: ksan = -O1 -g1 \
    $(if $(san),$(if $(findstring clang,$(CXX)),, \
    --param=asan-instrumentation-with-call-threshold=0))
$(B)/simt/%.o: %.cu $(B)/flags
	@mkdir -p $(@D)
	$(call say,SIMT,$<)
	$(Q)$(CXX) $(cppflags) -DMGPU_SIMT -include tests/simt/simt.h $(kflags) \
	    -MMD -MP -c -o $@ $<
$(B)/simt/%.o: %.cpp $(B)/flags
	@mkdir -p $(@D)
	$(call say,SIMT,$<)
	$(Q)$(CXX) $(cppflags) -DMGPU_SIMT $(kflags) -MMD -MP -c -o $@ $<

define room
$(call lib,$(1)): $(call objs,$(1)) $(B)/files
	@mkdir -p $$(@D)
	@rm -f $$@
	$$(Q)$$(AR) rcs $$@ $$(filter %.o,$$^)
endef
$(foreach l,$(layers),$(foreach r,$(rooms_$(l)),$(eval $(call room,$(r)))))

link = $(Q)$(CC) $(cflags) $(ldharden_$(VARIANT)) $(LDFLAGS) -Wl,--as-needed \
       -o $@ $(filter %.o,$^) $(filter %.a,$^)

# closed: a folder, linked with all that it may call; what it calls elsewhere is
# an undefined reference. Arguments: the folder, its layer.
until = $(if $(filter-out $(1),$(firstword $(2))),$(firstword $(2)) \
          $(call until,$(1),$(wordlist 2,$(words $(2)),$(2))))
define closed
$(patsubst %.a,%.closed,$(call lib,$(1))): $(call lib,$(1)) \
    $(call libs_of,$(call until,$(1),$(rooms_$(2)))) \
    $(foreach l,$(below_$(2)),$(call libs_of,$(rooms_$(l))))
	$$(Q)$$(CC) $$(cflags) -nostartfiles -Wl,-e,0 -Wl,--whole-archive $$< \
	    -Wl,--no-whole-archive $$(filter-out $$<,$$^) -o $$@ \
	    $$(ldlibs_$(if $(filter slurm/helper,$(1)),helper,$(2))) $$(LDLIBS)
endef
$(foreach l,$(layers),$(foreach r,$(rooms_$(l)),$(eval \
    $(call closed,$(r),$(l)))))
closed := $(foreach l,$(layers),$(foreach r,$(rooms_$(l)), \
            $(patsubst %.a,%.closed,$(call lib,$(r)))))

# program: its main, its layer, and what it links if that is not the layer's
define program
$(B)/bin/$(1): $(B)/obj/$(2:.c=.o) $(call libs,$(3))
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(link) $$(ldlibs_$(or $(4),$(3))) $$(LDLIBS)
endef
$(eval $(call program,mgpu-ctld,scheduler/ctld/main.c,ctld))
$(eval $(call program,mgpu-sim,scheduler/sim/main.c,sim))
$(eval $(call program,mgpu-web,scheduler/web/main.c,web))
$(eval $(call program,mgpu-batch,slurm/batch/batch.c,slurm))
$(eval $(call program,mgpu-shepherd,slurm/local/shepherd.c,slurm))
$(eval $(call program,mgpu-gpuwatch,slurm/local/gpuwatch.c,slurm))
$(eval $(call program,mgpu-slurm-helper,slurm/helper/helper.c,slurm,helper))
$(eval $(call program,mgpu-worker,worker/main.c,worker))
$(eval $(call program,mgpu-model,worker/model_tool/main.c,model))
$(foreach t,submit stat cancel admin,$(eval \
  $(call program,mgpu-$(t),$(filter %/$(t).c,$(mains)),tools)))

$(schema): scheduler/schema/json_schema.awk scheduler/schema/documents
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)awk -f $^ >$@
$(B)/tests/unit/tools/schema: | $(schema)

# The plug-in: every kernel by nvcc, the CUDA-only files, cuBLAS. The
# program never links CUDA; it opens this with dlopen.
plugin_src := $(wildcard $(foreach d,$(rooms_kernels),$(d)/*.cu \
                $(d)/*_cuda.c)) kernels/gemm.c \
              jobs/base/error.c
$(B)/lib/libmgpu-cuda.so: $(patsubst %,$(B)/cuda/%.o,$(basename $(plugin_src)))
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(NVCC) $(ccbin) -shared -cudart static -Xlinker --no-undefined \
	    -Xlinker --exclude-libs,ALL -o $@ $^ -lcublasLt

$(B)/obj/worker/%.o: worker/%.cpp $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(cppflags) $(cxxflags) -MMD -MP -c -o $@ $<

.PRECIOUS: $(B)/obj/%.o $(B)/wide/%.o $(B)/simt/%.o $(B)/cuda/%.o \
           $(B)/mutants/%.o
$(B)/obj/%.o: %.cpp $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(cppflags) $(kflags) -MMD -MP -c -o $@ $<

JOBS ?= 2
deps:
	$(Q)sh .ci/deps
demo: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all
	$(Q)$(MAKE) --no-print-directory demo-run
demo-run: all
	$(Q)MGPU_BIN=$(abspath $(B)/bin) sh jobs/examples/demo.sh
# LoRA of a small Llama.
demo-llm: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all
	$(Q)$(MAKE) --no-print-directory demo-llm-run
demo-llm-run: all
	$(Q)MGPU_BIN=$(abspath $(B)/bin) sh jobs/examples/demo-llm.sh
# A program of PyTorch, which is the one thing here that needs Python.
demo-torch: deps
	$(Q)sh .ci/deps packages-torch
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all
	$(Q)$(MAKE) --no-print-directory demo-torch-run
demo-torch-run: all
	$(Q)MGPU_BIN=$(abspath $(B)/bin) sh jobs/examples/demo-torch.sh
# A long training makes room for short ones: the policy goodput.
demo-elastic: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all
	$(Q)$(MAKE) --no-print-directory demo-elastic-run
demo-elastic-run: all
	$(Q)MGPU_BIN=$(abspath $(B)/bin) sh jobs/examples/demo-elastic.sh
# On a private Slurm of this machine.
demo-slurm: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all
	$(Q)$(MAKE) --no-print-directory demo-slurm-run
demo-slurm-run: all
	$(Q)MGPU_BIN=$(abspath $(B)/bin) sh jobs/examples/demo-slurm.sh

pages := $(wildcard man/*.[1-8])
include tests/tests.mk tests/bench/bench.mk tests/fuzz/fuzz.mk \
        tests/lint/lint.mk contrib/package.mk

# The chroot of .ci/debian13 stays: it takes minutes to make.
clean:
	$(Q)rm -rf build/debian13/out/*
	$(Q)[ ! -d build ] || find build -mindepth 1 -maxdepth 1 \
	    ! -name debian13 -exec rm -rf {} +

-include $(shell find $(B)/obj $(B)/wide $(B)/cuda $(B)/simt $(B)/race \
    build/fuzz/obj -name '*.d' 2>/dev/null)
