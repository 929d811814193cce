# Makefile - the whole build. There is no other makefile and no configure.
#
#   make                  programs            make check       all tests
#   make demo             the README's demo   make lint        static checks
#   make check-slurm      part of check         make demo-slurm  on a cluster
#   make asan|tsan|cov    checked variants    make fuzz        SECONDS= each
#   make install          DESTDIR= prefix=    make deps        Debian packages
#   make gpu-check         kernels on a GPU    make gpu-bench    and their speed
#   make gpu-bundle        both, for a machine that has nothing of ours
#   make deb               a Debian package, build/deb/*.deb
#   make systemd-check     that package under a systemd, in a virtual machine
#   make bench-slurm       a large cluster     make bench-cv     against PyTorch
#   make bench-ctld        what it carries     make crash ROUNDS=N    kill it
#   make bench-soak        for long: SECONDS=, N=jobs, HOLD= a reader's seconds,
#                          FAST= times as fast as our clock is the daemon's
#   make bench-short       what a start costs: N=jobs, SLOTS=
#   make bench-history     a long past: N=jobs, ROWS= of metrics
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

CFLAGS   ?= $(if $(san),-O1,-O2) -g
CXXFLAGS ?= -O3 -g
VARIANT  ?= release
B        := build/$(VARIANT)
Q        := $(if $(V),,@)
say       = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))

# What this machine has. `make CUDA=1` on one without it is an error, not a
# silently smaller program.
NVCC  ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) nvcc)
CUDA  ?= $(if $(shell command -v $(NVCC)),1,0)
CUDA_ARCH ?= 90
# Headers alone: CUPTI and NVTX are opened at run time, by nvToolsExt.h itself.
cuda_include := /usr/local/cuda/include
CUPTI ?= $(if $(wildcard $(cuda_include)/cupti.h),1,0)
NVTX  ?= $(if $(wildcard $(cuda_include)/nvtx3/nvToolsExt.h),1,0)
NCCL  ?= $(if $(wildcard /usr/include/nccl.h /usr/local/cuda/include/nccl.h),$(CUDA),0)
SLURM ?= $(if $(wildcard /usr/include/slurm/slurm.h),1,0)
MUNGE ?= $(if $(wildcard /usr/include/munge.h),1,0)

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
nvflags  = -O3 -g -std=c++17 -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra \
           $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) \
           -gencode arch=compute_$(lastword $(CUDA_ARCH)),code=compute_$(lastword $(CUDA_ARCH))

# ---- layers: name, folder, and the layers below it, nearest first ---------
layers := base jobs kernels db slurm policy engine ctld tools worker

# The folders of a layer, lowest first: each may call those before it and the
# layers below. Each is an archive, and must link with no more than that
# ($(B)/lib/%.closed).
under = $(addprefix $(1)/,$(2))
rooms_base    := jobs/base jobs/http
rooms_jobs    := jobs $(call under,jobs,text schema spec wire conf log)
rooms_kernels := $(call under,kernels,exec ops cv) kernels
rooms_db      := db db/mem db/sqlite
rooms_slurm   := slurm $(call under,slurm,launch as_user protocol local fake \
                   cluster batch helper)
rooms_policy  := scheduler/policy
rooms_engine  := $(call under,scheduler/engine,events table store rules plan \
                   attempts requests) scheduler/engine
rooms_ctld    := $(call under,scheduler/ctld,loop startup request notify \
                   maintenance ingest api) scheduler/ctld
rooms_tools   := $(call under,scheduler/tools,common admin cancel views \
                   export stat submit)
rooms_worker  := $(call under,worker,comm report process profile \
                   checkpoint data/image data cv train) worker

below_jobs    := base
below_kernels := base
below_db      := jobs base
below_slurm   := jobs base
below_policy  := jobs base
below_engine  := policy slurm db jobs base
below_ctld    := engine policy slurm db jobs base
below_tools   := jobs base
below_worker  := kernels jobs base

# Composition roots: one program each, in no archive.
mains := scheduler/ctld/main.c scheduler/tools/submit/submit.c \
         scheduler/tools/stat/stat.c scheduler/tools/cancel/cancel.c \
         scheduler/tools/admin/admin.c \
         slurm/batch/batch.c slurm/local/shepherd.c \
         slurm/local/gpuwatch.c slurm/helper/helper.c \
         worker/main.c

# A file named *_cuda.cu, *_nccl.c, *_slurm.c ... is the only kind that may
# include that library; leaving the library out leaves the file out. CUDA
# files are in the plug-in, not in an archive.
absent := %_cuda.cu %_cuda.c $(if $(filter 0,$(NCCL)),%_nccl.c) \
          $(if $(filter 0,$(CUPTI)),%_cupti.c) \
          $(if $(filter 0,$(NVTX)),%_nvtx.c) \
          $(if $(filter 0,$(SLURM)),%_slurm.c) \
          $(if $(filter 0,$(MUNGE)),%_munge.c)

# Of a folder, and of a layer.
room_srcs = $(filter-out $(absent) $(mains),$(sort $(wildcard $(1)/*.c \
              $(1)/*.cu)))
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
blas_dir := $(firstword $(wildcard /usr/lib/*/openblas-openmp))
mpi_cflags = $(shell mpicc --showme:compile 2>/dev/null)
mpi_libs   = $(shell mpicc --showme:link 2>/dev/null)

ldlibs_base    := -lcurl -levent -ljansson -lcrypto \
                  $(if $(filter 1,$(MUNGE)),-lmunge) -lpthread -lm
ldlibs_jobs    := -lyaml $(ldlibs_base)
ldlibs_kernels := $(if $(blas_dir),-L$(blas_dir)) -lopenblas -fopenmp \
                  -lstdc++ -ldl -lm -lpthread
ldlibs_db      := -lsqlite3 $(ldlibs_jobs)
ldlibs_slurm   := $(ldlibs_jobs)
# libslurm is GPL; the one program that links it is separate for that, too.
ldlibs_helper  := -lslurm $(ldlibs_slurm)
ldlibs_policy  := $(ldlibs_jobs)
ldlibs_engine  := -lsqlite3 $(ldlibs_jobs)
ldlibs_ctld    := -lsqlite3 $(ldlibs_jobs)
ldlibs_tools   := $(ldlibs_jobs)
ldlibs_worker   = $(mpi_libs) $(ldlibs_kernels) -ljpeg -lpng -lz $(ldlibs_jobs)

# ---- programs and tests ----------------------------------------------------
bins := $(patsubst %,$(B)/bin/mgpu-%,batch ctld shepherd gpuwatch worker \
          submit stat cancel admin)
bins := $(foreach b,$(bins),$(if $(wildcard $(filter \
          %/$(patsubst mgpu-%,%,$(notdir $(b))).c \
          $(if $(filter %ctld,$(b)),%ctld/main.c) \
          $(if $(filter %worker,$(b)),worker/main.c),$(mains))),$(b)))
bins += $(if $(filter 1,$(SLURM)),$(B)/bin/mgpu-slurm-helper)
plugin := $(if $(filter 1,$(CUDA)),$(B)/lib/libmgpu-cuda.so)

unit_layers := $(layers)
# TSan knows neither libgomp, which was not built for it, so that each parallel
# loop looks like a race, nor the coroutines of the SIMT emulator. Mutants are
# built without a sanitizer.
not_here  := $(if $(filter tsan,$(VARIANT)),tests/unit/kernels/% \
               tests/simt/% tests/contract/model.c tests/unit/worker/cv_% \
               tests/unit/worker/data_loader%) \
             $(if $(san),tests/simt/mutants.c) \
             $(if $(filter 0,$(SLURM)),tests/unit/slurm/cluster/alloc_slurm%)
# Those of a folder of a layer are in one of its name. The contract of the
# kernels is no program of its own.
units     := $(patsubst %.c,$(B)/%,$(filter-out $(not_here) \
               tests/unit/kernels/contract/%, \
               $(wildcard tests/unit/*/*.c tests/unit/*/*/*.c)))
contracts := $(patsubst %.c,$(B)/%,$(filter-out $(not_here), \
               $(wildcard tests/contract/*.c)))
# MPI_SKIP: names of those that are left out.
mpi_tests := $(patsubst %.c,$(B)/%,$(filter-out $(MPI_SKIP:%=tests/mpi/%.c), \
               $(wildcard tests/mpi/*.c)))
simt_tests := $(patsubst %.c,$(B)/%,$(filter-out $(not_here), \
               $(wildcard tests/simt/*.c)))
bats_tests := $(wildcard tests/cli/*.bats)
slurm_tests := $(if $(filter 1,$(SLURM)),$(wildcard tests/slurm/*.bats))
slurm_progs := $(if $(filter 1,$(SLURM)),$(patsubst %.c,$(B)/%, \
               $(wildcard tests/slurm/*.c)))
# What they preload wants to be the first to have malloc, as do sanitizers.
fault_progs := $(if $(filter release,$(VARIANT)),$(patsubst %, \
               $(B)/tests/fault/%,serve start tools))
# The longest first, so that none runs alone at the end. prove --timer has the
# figures.
longest   := $(patsubst %,tests/%.bats,cli/worker slurm/slurmctld slurm/daemon \
               cli/gpu cli/stat slurm/batch cli/sweeps slurm/people slurm/nodes \
               cli/crash cli/admin slurm/run cli/ctld slurm/system) \
             $(patsubst %,$(B)/tests/%,unit/kernels/device simt/device \
               slurm/helper_faults unit/slurm/as_user/as_user contract/alloc \
               unit/worker/cv_precision \
               mpi/train mpi/gpu mpi/ranks mpi/strategies)
longest_first = $(foreach t,$(longest),$(filter $(t),$(1))) \
                $(filter-out $(longest),$(1))
fuzz      := $(patsubst tests/fuzz/%.c,build/fuzz/%,$(filter-out $(absent), \
               $(wildcard tests/fuzz/*.c)))

.PHONY: all check check-build check-run check-slurm demo demo-run demo-slurm \
        demo-slurm-run deps lint asan tsan cov coverage coverage-run fuzz gpu-check gpu-bench gpu-bundle \
        bench-cv bench-slurm bench-ctld bench-soak bench-short bench-history bench-retention crash fault \
        install uninstall deb systemd-check clean FORCE
.DELETE_ON_ERROR:
.SUFFIXES:

all: $(bins) $(plugin)

# Objects depend on the flags they were built with, archives on the list of
# sources: change either and what it touches is rebuilt, and nothing else.
flags := $(CC) $(cppflags) $(cflags) $(CXX) $(kflags) $(NVCC) $(nvflags)
files := $(foreach l,$(layers),$(call srcs,$(l)))
$(B)/flags $(B)/files: $(B)/%: FORCE
	@mkdir -p $(@D)
	@echo '$($*)' | cmp -s - $@ || echo '$($*)' > $@
FORCE:

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(cppflags) $(cflags) -MMD -MP -c -o $@ $<
# The schemas, and the papers' numbers, are in these by .incbin, which -MMD
# does not see.
$(B)/obj/db/sqlite/schema_sqlite.o: $(wildcard db/schema/*.sql)
$(B)/obj/scheduler/tools/export/paper_results.o: $(wildcard jobs/paper/*.csv)
$(B)/obj/%_mpi.o $(B)/obj/tests/mpi/%.o $(B)/obj/worker/main.o: \
	cppflags += $(mpi_cflags)
$(B)/obj/%_nccl.o $(B)/obj/%_cupti.o $(B)/obj/%_nvtx.o: \
	cppflags += -isystem $(cuda_include)

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
	    -isystem /usr/local/cuda/include \
	    -MMD -MP -c -o $@ $<
# The checks of ASan by calls: half the time to compile, and little to run.
$(B)/simt/%.o: ksan += $(if $(san),$(if $(findstring clang,$(CXX)),, \
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
$(eval $(call program,mgpu-batch,slurm/batch/batch.c,slurm))
$(eval $(call program,mgpu-shepherd,slurm/local/shepherd.c,slurm))
$(eval $(call program,mgpu-gpuwatch,slurm/local/gpuwatch.c,slurm))
$(eval $(call program,mgpu-slurm-helper,slurm/helper/helper.c,slurm,helper))
$(eval $(call program,mgpu-worker,worker/main.c,worker))
$(foreach t,submit stat cancel admin,$(eval \
  $(call program,mgpu-$(t),$(filter %/$(t).c,$(mains)),tools)))

# The plug-in: every kernel by nvcc, the CUDA-only files, cuBLAS. The
# program never links CUDA; it opens this with dlopen.
plugin_src := $(wildcard $(foreach d,$(rooms_kernels),$(d)/*.cu \
                $(d)/*_cuda.c)) kernels/gemm.c \
              jobs/base/error.c
$(B)/lib/libmgpu-cuda.so: $(patsubst %,$(B)/cuda/%.o,$(basename $(plugin_src)))
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(NVCC) -shared -cudart static -Xlinker --no-undefined \
	    -Xlinker --exclude-libs,ALL -o $@ $^ -lcublasLt

# The contract of kernels/device.h: one body for the host, the emulator and
# the GPU.
contract_objs := $(patsubst %.c,$(B)/obj/%.o, \
                   $(wildcard tests/unit/kernels/contract/*.c))
extra_kernels := $(contract_objs)

# The CUDA side of the kernels with emulated lanes; no host kernel is linked.
simt_objs := $(patsubst %.cu,$(B)/simt/%.o, \
               $(filter-out %_cuda.cu,$(wildcard $(rooms_kernels:=/*.cu))) \
               $(wildcard tests/simt/*.cu)) \
             $(patsubst %.cpp,$(B)/simt/%.o,$(wildcard tests/simt/*.cpp))
$(B)/tests/simt/%: $(B)/obj/tests/simt/%.o $(B)/obj/tests/tap.o \
                   $(contract_objs) $(simt_objs) $(call libs,kernels)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_kernels) $(LDLIBS)

# Kernels with a bug each, which the contract on the emulator has to find, and
# no sanitizer in its place: they are built without.
$(B)/mutants/%.o: san :=
mutants := $(shell sed -n 's/^MUTANT.\([0-9]*\),.*/\1/p' tests/simt/mutants.def)
$(B)/mutants/%.o: tests/simt/mutants.def tests/simt/mutate tests/simt/simt.h \
                  $(wildcard $(rooms_kernels:=/*.cu) $(rooms_kernels:=/*.h)) \
                  $(B)/flags
	@mkdir -p $(@D)
	$(call say,BUG,$*)
	$(Q)kernel=$$(tests/simt/mutate $* $(@:.o=.src)) && \
	    $(CXX) -I$(@:.o=.src) $(cppflags) -DMGPU_SIMT \
	    -include tests/simt/simt.h $(kflags) -O1 -g0 -c -o $@ $$kernel
$(B)/tests/simt/mutants: $(patsubst %,$(B)/mutants/%.o,$(mutants))

# A unit test links its own layer and what lies below, nothing else: code
# that reaches upwards does not link. A contract test links every layer.
define unit
$(B)/tests/unit/$(1)/%: $(B)/obj/tests/unit/$(1)/%.o $(B)/obj/tests/tap.o \
                        $(extra_$(1)) $(call libs,$(1))
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(link) $$(ldlibs_$(1)) $$(LDLIBS)
endef
$(foreach l,$(unit_layers),$(eval $(call unit,$(l))))
.PRECIOUS: $(B)/obj/%.o $(B)/wide/%.o $(B)/simt/%.o $(B)/cuda/%.o \
           $(B)/mutants/%.o
# Libraries of NVIDIA's, as a machine without a GPU needs them for its tests.
fakes := $(if $(filter 1,$(CUPTI)),$(B)/tests/fake/cupti.so) \
         $(if $(filter 1,$(NVTX)),$(B)/tests/fake/nvtx.so)
$(B)/tests/fake/%.so: tests/fake/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(cppflags) $(cflags) $(ldharden_$(VARIANT)) -shared -fPIC \
	    -isystem $(cuda_include) -o $@ $<
$(B)/tests/unit/worker/profile/profile_cupti \
$(B)/tests/unit/worker/profile/trace_ranges: | $(fakes)
# The n-th allocation of our own code fails, for every n.
$(B)/tests/unit/jobs/nomem: LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc \
    -Wl,--wrap=realloc,--wrap=strdup
$(B)/tests/unit/engine/nomem: LDFLAGS += -Wl,--wrap=malloc,--wrap=strdup

$(B)/tests/contract/%: $(B)/obj/tests/contract/%.o $(B)/obj/tests/tap.o \
                       $(call libs,ctld)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_ctld) $(LDLIBS)
# What implements worker/model.h.
$(B)/tests/contract/model: $(B)/obj/tests/contract/model.o \
                           $(B)/obj/tests/tap.o $(call libs,worker)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_worker) $(LDLIBS)
# A shepherd on a slow disk.
slow_sync := $(B)/tests/contract/preload/slow_sync.so
$(slow_sync): tests/contract/preload/slow_sync.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(cppflags) -std=c11 $(CFLAGS) $(warn) -shared -fPIC -o $@ $<
$(B)/tests/contract/alloc_slots $(B)/tests/crash/crash: | $(slow_sync)

$(B)/tests/slurm/%: $(B)/obj/tests/slurm/%.o $(B)/obj/tests/tap.o \
                    $(call libs,slurm)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_slurm) $(LDLIBS)

# Counts the allocations of our own code.
$(B)/tests/mpi/memory: LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc \
    -Wl,--wrap=realloc,--wrap=strdup,--wrap=posix_memalign \
    -Wl,--wrap=aligned_alloc

# A daemon and tools of which calls fail.
$(B)/tests/fault/inject.so: tests/fault/inject.c tests/fault/fault.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(cppflags) -std=c11 $(CFLAGS) $(warn) -shared -fPIC -o $@ $<
$(B)/tests/fault/%: $(B)/obj/tests/fault/%.o $(B)/obj/tests/fault/rig.o \
                    $(B)/obj/tests/tap.o $(call libs,base) \
                    | $(B)/tests/fault/inject.so
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_base) $(LDLIBS)

# Programs that measure; no part of check.
$(B)/tests/bench/%: $(B)/obj/tests/bench/%.o $(call libs,kernels)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_kernels) $(LDLIBS)
$(B)/tests/bench/store: $(B)/obj/tests/bench/store.o $(call libs,db)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_db) $(LDLIBS)
$(B)/tests/crash/crash: $(B)/obj/tests/crash/crash.o $(call libs,engine)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_engine) $(LDLIBS)
$(addprefix $(B)/tests/bench/,plan fill load): $(B)/tests/bench/%: \
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
$(addprefix $(B)/tests/bench/,cv_step decode gpu_step layers metrics report): \
    $(B)/tests/bench/%: \
    $(B)/obj/tests/bench/%.o $(call libs,worker)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_worker) $(LDLIBS)

# With a GPU and NCCL that are not there (tests/mpi/fake_gpu.h).
$(B)/obj/%.o: %.cpp $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(cppflags) $(kflags) -MMD -MP -c -o $@ $<
$(B)/tests/mpi/gpu $(B)/tests/mpi/nccl: $(B)/obj/tests/mpi/fake_gpu.o
$(B)/tests/mpi/gpu $(B)/tests/mpi/nccl: LDFLAGS += -Wl,--wrap=dlopen,--wrap=dlsym \
  -Wl,--wrap=device_cuda_create,--wrap=device_cuda_count
$(B)/tests/mpi/%: $(B)/obj/tests/mpi/%.o $(B)/obj/tests/tap.o \
                  $(call libs,worker)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_worker) $(LDLIBS)

# See tests/leak.h; protect_shadow_gap=0 is what CUDA needs under ASan.
test_env := MGPU_BIN=$(abspath $(B)/bin) MGPU_SRC=$(CURDIR) \
  MGPU_VARIANT=$(VARIANT) \
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
  GOMP_SPINCOUNT=2000
mpi_env := ASAN_OPTIONS=leak_check_at_exit=0:fast_unwind_on_malloc=0:protect_shadow_gap=0:intercept_tls_get_addr=0 \
  LSAN_OPTIONS=suppressions=$(CURDIR)/tests/lsan.supp:print_suppressions=0 \
  OMP_NUM_THREADS=1
MPI_RANKS ?= 1 2 3
# And for what depends on the number; empty: not.
MPI_MORE  ?= 4

JOBS ?= 2
check: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) check-build
	$(Q)$(MAKE) --no-print-directory check-run
gpu_bench := $(B)/tests/bench/kernels $(B)/tests/bench/gpu_step
# Run by nobody here, but to compile is the least that a benchmark has to do.
benches   := $(patsubst tests/bench/%.c,$(B)/tests/bench/%,\
                 $(wildcard tests/bench/*.c))
check-build: all $(units) $(contracts) $(mpi_tests) $(simt_tests) $(slurm_progs) \
             $(fault_progs) \
             $(if $(filter release,$(VARIANT)),$(closed) $(benches) $(B)/tests/crash/crash \
                 $(B)/tests/bench/preload/clock.so)
# They wait more than they compute: more at once than there are cores.
prove := prove --timer -j$$((4 * $(JOBS))) --failures --comments --exec tests/run
check-run: check-build
	$(Q)$(test_env) $(prove) $(call longest_first,$(units) $(contracts) \
	    $(simt_tests) $(fault_progs) $(bats_tests) $(slurm_progs) \
	    $(slurm_tests))
	$(Q)for n in $(MPI_RANKS); do $(test_env) $(mpi_env) prove -j$(JOBS) --exec \
	    "mpirun -n $$n --oversubscribe --bind-to none" \
	    $(call longest_first,$(mpi_tests)) || exit 1; done
	$(if $(MPI_MORE),$(Q)$(test_env) $(mpi_env) prove -j$(JOBS) --exec \
	    "mpirun -n $(MPI_MORE) --oversubscribe --bind-to none" \
	    $(filter %/ranks %/strategies,$(mpi_tests)))
# Each file has a cluster of its own (tests/slurm/testbed).
check-slurm: all $(slurm_progs)
	$(if $(slurm_tests),$(Q)$(test_env) $(prove) \
	    $(call longest_first,$(slurm_progs) $(slurm_tests)))

asan tsan cov:
	$(Q)$(MAKE) --no-print-directory VARIANT=$@ CUDA=0 check
# What the tests execute of the parts on which all else rests; needs gcovr.
counted := $(filter $(foreach d,jobs db engine slurm,$(B)/tests/unit/$d/%), \
             $(units)) $(contracts)
coverage:
	$(Q)$(MAKE) --no-print-directory VARIANT=cov CUDA=0 coverage-run
coverage-run: $(counted) $(addprefix $(B)/bin/,mgpu-shepherd mgpu-gpuwatch \
              mgpu-batch \
              $(if $(filter 1,$(SLURM)),mgpu-slurm-helper))
	$(Q)find $(B) -name '*.gcda' -delete
	$(Q)$(test_env) $(prove) $(counted)
	$(Q)sh tests/lint/coverage.sh $(B)

# On a machine with a GPU, one command each. gpu-check fails where there is
# none: a skipped check is no check. DEVICE=host shows that the scripts work.
DEVICE ?= cuda
gpu_units := $(patsubst %,$(B)/tests/unit/%,kernels/cuda kernels/determinism \
               worker/cv_golden worker/cv_precision)
gpu-check: all $(gpu_units) $(B)/tests/mpi/nccl
	$(Q)$(test_env) DEVICE=$(DEVICE) $(foreach v,PARTS LIMIT, \
	    $(if $($(v)),$(v)='$($(v))')) MGPU_TESTS=$(abspath $(B)/tests) \
	    tests/gpu/check.sh
# One folder with all of it, for a machine without our libraries.
gpu-bundle: all $(gpu_units) $(B)/tests/mpi/nccl $(gpu_bench)
	$(Q)MGPU_BUILD=$(abspath $(B)) MGPU_SRC=$(CURDIR) \
	    tests/gpu/bundle.sh $(or $(BUNDLE),$(abspath $(B))/gpu-bundle)
gpu-bench: all $(gpu_bench)
	$(Q)$(if $(plugin),MGPU_CUDA_PLUGIN=$(abspath $(plugin))) \
	    DEVICE=$(DEVICE) $(foreach v,SIZES BATCHES PRECISIONS ROUNDS RESULTS \
	    BUDGET RESUME,$(if $($(v)),$(v)='$($(v))')) \
	    MGPU_BENCH=$(abspath $(B)/tests/bench) tests/gpu/bench.sh

# Against PyTorch on the same cores.
bench-cv: $(B)/tests/bench/cv_step $(B)/tests/bench/metrics
	$(Q)MGPU_BENCH=$(abspath $(B)/tests/bench) tests/bench/cv.sh
	$(Q)GOMP_SPINCOUNT=2000 $(B)/tests/bench/metrics $(shell nproc) # as ranks

# 64 nodes of 8 GPUs in name, 1000 jobs in the queue.
bench-slurm: all
	$(Q)MGPU_BIN=$(abspath $(B)/bin) tests/bench/slurm.sh
# What the daemon carries: submits, rows, watchers, a long queue, a long past.
# Kills a daemon at ROUNDS random moments; a failure names its SEED.
crash: all $(B)/tests/crash/crash
	$(Q)$(B)/tests/crash/crash $(or $(ROUNDS),1000) \
	    $(or $(SEED),$(shell date +%s)) $(abspath $(B)/bin)

# Fails each call of a daemon and of the tools, of each kind in each way.
fault: all $(fault_progs)
	$(Q)$(test_env) MGPU_FAULT=all prove --timer -j$(JOBS) --comments \
	    --exec tests/run $(fault_progs)

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

deps:
	$(Q)sh .ci/deps
demo: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all
	$(Q)$(MAKE) --no-print-directory demo-run
demo-run: all
	$(Q)MGPU_BIN=$(abspath $(B)/bin) sh jobs/examples/demo.sh
# On a private Slurm of this machine.
demo-slurm: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all
	$(Q)$(MAKE) --no-print-directory demo-slurm-run
demo-slurm-run: all
	$(Q)MGPU_BIN=$(abspath $(B)/bin) sh jobs/examples/demo-slurm.sh

# ---- static checks --------------------------------------------------------
c_files := $(shell find jobs scheduler worker kernels db slurm tests \
             -name '*.[ch]' 2>/dev/null)
tidy_files := $(filter-out tests/%,$(filter %.c,$(c_files)))
tidy_files := $(filter-out $(absent),$(tidy_files))
# Headers that are C++, or parts of one file.
not_alone := tests/simt/% kernels/exec/exec%.h kernels/exec/simd%.h \
             kernels/cv/%_rows.h
# How many states of a function the analyzer goes through: as it does itself. A
# third of them takes a third of the time.
LINT_NODES ?= 225000
tidy_args := $(foreach a,-analyzer-config max-nodes=$(LINT_NODES),\
               --extra-arg=-Xclang --extra-arg=$(a))
lint: all
	$(Q)sh tests/lint/layers.sh
	$(Q)sh tests/lint/size.sh
	$(Q)sh tests/lint/rooms.sh --self-test
	$(Q)sh tests/lint/rooms.sh $(B)/obj
	$(Q)sh tests/lint/prose.sh --self-test
	$(Q)sh tests/lint/prose.sh
	$(Q)sh tests/lint/sql.sh --self-test
	$(Q)sh tests/lint/sql.sh
	$(Q)sh tests/lint/checked.sh --self-test
	$(Q)sh tests/lint/checked.sh
	$(Q)sh tests/lint/tables.sh --self-test
	$(Q)sh tests/lint/tables.sh
	$(Q)printf '%s\n' $(filter-out $(not_alone),$(filter %.h,$(c_files))) | \
	    xargs -P $(JOBS) -I FILE $(CC) $(cppflags) $(mpi_cflags) -std=c11 \
	    -fsyntax-only -x c FILE
	$(Q)clang-format --dry-run -Werror $(c_files)
	$(Q)printf '%s\n' $(tidy_files) | xargs -P $(JOBS) -I FILE \
	    clang-tidy --quiet $(tidy_args) FILE -- $(cppflags) $(mpi_cflags) \
	    -isystem /usr/local/cuda/include -std=c11
	$(Q)cppcheck -j $(JOBS) --quiet --error-exitcode=1 --inline-suppr --std=c11 -I. \
	    --enable=warning,performance,portability $(filter %.c,$(c_files))
	$(Q)shellcheck tests/lint/*.sh .ci/run .ci/deps contrib/deb/build contrib/notify/* jobs/examples/*.sh \
	    scheduler/tools/completion.bash tests/slurm/testbed \
	    tests/bench/*.sh tests/gpu/*.sh tests/systemd/*.sh tests/fuzz/run tests/run tests/*/*.bash tests/simt/mutate
	$(Q)! grep -nE '^ *! ' tests/*/*.bats tests/*/*.bash | \
	    grep -v ' || ' || { echo 'what begins with ! cannot fail'; exit 1; }
	$(Q)! grep -rnE 'error_sys\([^"]*"[a-z_0-9]+"\)' --include=*.c \
	    jobs db slurm scheduler kernels | grep -vE '"(sync|open)"' || \
	    { echo 'a call is no reason: say what failed'; exit 1; }
	$(Q)codespell -q 3 -L inout,nd,trian,nmae,comand,gird,runing \
	    --skip '*.txt,*.gz,./build,./tests/fuzz/seeds,./LICENSE,./.git' .
	$(Q)for m in $(pages); do groff -mdoc -ww -z $$m || exit 1; \
	    mandoc -T lint -W warning $$m || exit 1; done

fuzz_obj   = $(patsubst %.c,build/fuzz/obj/%.o,$(1))
fuzz_flags := -g -O1 -fno-sanitize-recover=all
fuzz_san   := address,undefined,float-cast-overflow
build/fuzz/helper_wire: $(call fuzz_obj,slurm/protocol/helper_wire.c \
    slurm/protocol/helper_messages.c)
build/fuzz/files_wire: $(call fuzz_obj,slurm/as_user/files_wire.c)
build/fuzz/safetensors: $(call fuzz_obj,worker/checkpoint/safetensors.c)
build/fuzz/idx: $(call fuzz_obj,worker/data/image/idx.c)
build/fuzz/idx: fuzz_libs := -lz
build/fuzz/image: $(call fuzz_obj,kernels/cv/image_u8.c \
    worker/data/image/image_sample.c \
    worker/data/image/decode.c \
    worker/data/image/decode_jpeg.c \
    worker/data/image/decode_png.c \
    worker/data/image/exif.c \
    worker/data/image/augment.c)
build/fuzz/image: fuzz_libs := -ljpeg -lpng
build/fuzz/checkpoint: $(call fuzz_obj,worker/checkpoint/checkpoint_dir.c \
    worker/checkpoint/crc64.c)
build/fuzz/attempt: $(call fuzz_obj,slurm/launch/attempt_dir.c \
    slurm/protocol/batch_conf.c \
    slurm/helper/conf_copy.c \
    slurm/as_user/protected_uids.c \
    slurm/batch/end_cause.c)
build/fuzz/text: $(call fuzz_obj,slurm/helper/gres.c slurm/place_text.c \
    $(call srcs,tools))
build/fuzz/reply: $(call fuzz_obj,$(call srcs,tools))
# Of the daemon all but its databases and what main() puts together.
fuzz_not  := scheduler/ctld/args.c \
    scheduler/ctld/startup/allocator_local.c \
    scheduler/ctld/startup/allocator_slurm.c \
    scheduler/ctld/startup/daemonize.c \
    scheduler/ctld/ingest/spool_drain.c \
    scheduler/ctld/startup/reload.c \
    scheduler/ctld/startup/setup.c \
    scheduler/ctld/startup/privileges.c
fuzz_ctld := $(call fuzz_obj,$(call srcs,engine) $(call srcs,policy) \
    db/backup_dir.c \
    db/high_water.c \
    db/mem/mem_archive.c \
    db/mem/mem_purge.c \
    db/mem/mem_table.c \
    db/mem/mem_view.c \
    db/mem/store_mem.c \
    db/view.c \
    slurm/as_user/files_direct.c \
    slurm/place_text.c \
    $(filter-out $(fuzz_not),$(call srcs,ctld)))
build/fuzz/codec: $(call fuzz_obj,scheduler/ctld/maintenance/audit_log.c \
    scheduler/engine/events/event_codec.c \
    scheduler/engine/events/submit_codec.c \
    scheduler/engine/events/json_nomem.c)
build/fuzz/ctld: $(fuzz_ctld) $(call fuzz_obj,tests/tap.c \
    scheduler/ctld/ingest/spool_drain.c)
build/fuzz/drain: $(fuzz_ctld)
build/fuzz/obj/%.o: %.c
	@mkdir -p $(@D)
	$(Q)clang $(cppflags) -std=c11 $(fuzz_flags) \
	    -fsanitize=fuzzer-no-link,$(fuzz_san) -MMD -MP -c -o $@ $<
build/fuzz/%: build/fuzz/obj/tests/fuzz/%.o \
              $(call fuzz_obj,$(call srcs,jobs) $(call srcs,base))
	$(call say,FUZZ,$@)
	$(Q)clang $(fuzz_flags) -fsanitize=fuzzer,$(fuzz_san) -o $@ $^ \
	    $(fuzz_libs) $(ldlibs_jobs)
.PRECIOUS: build/fuzz/obj/%.o
fuzz:
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) $(fuzz)
	$(Q)printf '%s\n' $(fuzz:build/fuzz/%=%) | xargs -P $(JOBS) -I TARGET \
	    tests/fuzz/run TARGET $(or $(SECONDS),60)

# ---- install --------------------------------------------------------------
pages := $(wildcard man/*.[1-8])
sysconfdir ?= /etc
unitdir    ?= $(prefix)/lib/systemd
# Where Debian's zsh looks: vendor-completions for what is in a package.
zshdir     ?= $(datadir)/zsh/$(if $(filter /usr,$(prefix)),vendor-completions,site-functions)
install: $(if $(NOBUILD),,all)
	install -d $(DESTDIR)$(bindir) $(DESTDIR)$(libdir)/mgpu
	install -m 755 $(bins) $(DESTDIR)$(bindir)
	$(if $(plugin),install -m 755 $(plugin) $(DESTDIR)$(libdir)/mgpu)
	for t in submit stat cancel admin; do install -D -m 644 \
	    scheduler/tools/completion.bash \
	    $(DESTDIR)$(datadir)/bash-completion/completions/mgpu-$$t || exit 1; done
	install -D -m 644 scheduler/tools/completion.zsh $(DESTDIR)$(zshdir)/_mgpu
	for e in jobs/examples/*.yaml; do install -D -m 644 $$e \
	    $(DESTDIR)$(datadir)/doc/mgpu/examples/$${e##*/} || exit 1; done
	for e in jobs/paper/*; do install -D -m 644 $$e \
	    $(DESTDIR)$(datadir)/doc/mgpu/paper/$${e##*/} || exit 1; done
	install -D -m 644 scheduler/schema/mgpu.schema.json \
	    $(DESTDIR)$(datadir)/mgpu/mgpu.schema.json
	for m in $(pages); do install -D -m 644 $$m \
	    $(DESTDIR)$(mandir)/man$${m##*.}/$${m##*/} || exit 1; done
	for d in system user; do install -d $(DESTDIR)$(unitdir)/$$d; \
	    sed 's|@bindir@|$(bindir)|' contrib/systemd/mgpu-ctld.$$d.service \
	    >$(DESTDIR)$(unitdir)/$$d/mgpu-ctld.service || exit 1; done
	install -D -m 644 contrib/systemd/sysusers.conf \
	    $(DESTDIR)$(prefix)/lib/sysusers.d/mgpu.conf
	install -D -m 644 contrib/systemd/tmpfiles.conf \
	    $(DESTDIR)$(prefix)/lib/tmpfiles.d/mgpu.conf
	for e in mail webhook; do install -D -m 755 contrib/notify/$$e \
	    $(DESTDIR)$(datadir)/doc/mgpu/notify/$$e || exit 1; done
	install -D -m 644 contrib/logrotate \
	    $(DESTDIR)$(sysconfdir)/logrotate.d/mgpu
	install -D -m 644 contrib/grafana/mgpu.json \
	    $(DESTDIR)$(datadir)/mgpu/grafana/mgpu.json
uninstall:
	cd $(DESTDIR)$(bindir) && rm -f $(notdir $(bins))
	rm -rf $(DESTDIR)$(libdir)/mgpu $(DESTDIR)$(datadir)/doc/mgpu \
	    $(DESTDIR)$(datadir)/mgpu
	cd $(DESTDIR)$(datadir)/bash-completion/completions && \
	    rm -f mgpu-submit mgpu-stat mgpu-cancel mgpu-admin
	rm -f $(DESTDIR)$(zshdir)/_mgpu
	for m in $(pages); do rm -f \
	    $(DESTDIR)$(mandir)/man$${m##*.}/$${m##*/}; done
	rm -f $(DESTDIR)$(unitdir)/system/mgpu-ctld.service \
	    $(DESTDIR)$(unitdir)/user/mgpu-ctld.service \
	    $(DESTDIR)$(prefix)/lib/sysusers.d/mgpu.conf \
	    $(DESTDIR)$(prefix)/lib/tmpfiles.d/mgpu.conf \
	    $(DESTDIR)$(sysconfdir)/logrotate.d/mgpu
	rm -rf $(DESTDIR)$(datadir)/mgpu

# A Debian package of what install puts there. Needs dpkg-dev.
deb: $(if $(NOBUILD),,all)
	$(Q)rm -rf build/deb
	$(Q)$(MAKE) --no-print-directory NOBUILD=1 install prefix=/usr \
	    DESTDIR=$(abspath build/deb/root) >/dev/null
	$(Q)sh contrib/deb/build build/deb
# As root; needs debootstrap and qemu-system-x86. See tests/systemd/boot.sh.
systemd-check: deb
	$(Q)tests/systemd/boot.sh build/deb/*.deb build/systemd

clean:
	rm -rf build

-include $(shell find $(B)/obj $(B)/wide $(B)/cuda $(B)/simt build/fuzz/obj \
    -name '*.d' 2>/dev/null)
