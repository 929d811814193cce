# tests.mk - the tests: programs, how they are linked, and how they run.

unit_layers := $(layers)
# TSan knows neither libgomp, which was not built for it, so that each parallel
# loop looks like a race, nor the coroutines of the SIMT emulator. Mutants are
# built without a sanitizer.
not_here  := $(if $(filter tsan,$(VARIANT)),tests/unit/kernels/% \
               tests/simt/% tests/contract/model.c tests/unit/worker/cv_% \
               tests/unit/worker/data_loader%) \
             $(if $(san),tests/simt/mutants.c tests/race/% \
               tests/step/%) \
             $(if $(filter 0,$(SLURM)),tests/unit/slurm/cluster/alloc_slurm%)
# Those of a folder of a layer are in one of its name. The contract of the
# kernels is no program of its own.
# LONG=0 leaves out what computes longest, in a run with other flags of what
# `make check` has run: the kernels' other tests, and shorter ones of the same
# models, jobs and plans, stay.
long_contracts := engine_resize_random engine_storm engine_crash \
                  engine_random goodput_aging
long      := $(if $(filter 0,$(LONG)),$(patsubst %,tests/unit/%.c, \
               kernels/determinism kernels/gemm_narrow \
               worker/cv_golden worker/cv_precision worker/cv_grad worker/cv_step \
               worker/llm_stories worker/data_spill worker/data_templates \
               policy/goodput_many policy/property sim/restarts) \
               $(long_contracts:%=tests/contract/%.c))
units     := $(patsubst %.c,$(B)/%,$(filter-out $(not_here) $(long) \
               tests/unit/kernels/contract/%, \
               $(wildcard tests/unit/*/*.c tests/unit/*/*/*.c)))
contracts := $(patsubst %.c,$(B)/%,$(filter-out $(not_here) $(long), \
               $(wildcard tests/contract/*.c)))
# MPI_SKIP: names of those that are left out.
mpi_tests := $(patsubst %.c,$(B)/%,$(filter-out $(MPI_SKIP:%=tests/mpi/%.c), \
               $(wildcard tests/mpi/*.c)))
# whole.c takes a minute, most of it to compile: make check-races.
simt_tests := $(patsubst %.c,$(B)/%,$(filter-out $(not_here) \
               tests/race/whole.c,$(wildcard tests/simt/*.c tests/race/*.c) \
               tests/step/launches.c tests/step/collectives.c))
bats_tests := $(wildcard tests/cli/*.bats)
slurm_tests := $(if $(filter 1,$(SLURM)),$(wildcard tests/slurm/*.bats))
slurm_progs := $(if $(filter 1,$(SLURM)),$(patsubst %.c,$(B)/%, \
               $(wildcard tests/slurm/*.c)))
# What they preload wants to be the first to have malloc, as do sanitizers.
fault_progs := $(if $(filter release,$(VARIANT)),$(patsubst %, \
               $(B)/tests/fault/%,serve start tools))
# The longest first, so that none runs alone at the end. prove --timer has the
# figures.
longest   := $(B)/tests/slurm/helper_faults \
             $(patsubst %,tests/%.bats,slurm/resize cli/worker cli/gpu \
               slurm/forgotten slurm/people slurm/slurmctld slurm/daemon \
               slurm/nodes slurm/run slurm/batch cli/resize cli/stat \
               cli/crash cli/admin) \
             $(B)/tests/unit/slurm/as_user/as_user \
             $(B)/tests/unit/kernels/device $(B)/tests/simt/device \
             $(patsubst %,tests/%.bats,cli/package slurm/accounting \
               slurm/system slurm/launch cli/notify cli/llm cli/ctld cli/sim) \
             $(patsubst %,$(B)/tests/%,contract/alloc \
               unit/ctld/request/archive_load simt/mutants \
               unit/worker/cv_precision \
               mpi/llm_shared mpi/gpu mpi/train mpi/ranks mpi/strategies)
longest_first = $(foreach t,$(longest),$(filter $(t),$(1))) \
                $(filter-out $(longest),$(1))
.PHONY: check check-build check-run check-slurm asan tsan cov coverage \
        coverage-run gpu-check gpu-check-run gpu-bench gpu-bench-run gpu-bundle gpu-first-contact cuda-parts cuda12-check \
        crash fault resizes debian13-check debian13-half debian13-rest \
        check-tokenizers \
        check-datasets check-long-rows check-races check-processors \
        check-mutants web-check web-bench python-check

# ---- programs --------------------------------------------------------------
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
# The launches of a training step, which are recorded and not run. Kernels are
# found by their addresses.
step_objs := $(patsubst %,$(B)/obj/tests/step/%.o,comm_record \
               device_record names record_llm step step_text traffic traffic_text) \
             $(filter $(B)/simt/kernels/%,$(simt_objs)) \
             $(B)/simt/tests/simt/simt.o
$(B)/tests/step/%: $(B)/obj/tests/step/%.o $(B)/obj/tests/tap.o \
                   $(step_objs) $(call libs,worker)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) -no-pie $(ldlibs_worker) $(LDLIBS)
$(B)/tests/simt/%: $(B)/obj/tests/simt/%.o $(B)/obj/tests/tap.o \
                   $(contract_objs) $(simt_objs) $(call libs,kernels)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_kernels) $(LDLIBS)

# Kernels with a bug each, which the contract on the emulator has to find, and
# no sanitizer in its place: they are built without.
$(B)/mutants/%.o: san :=
numbers  = $(shell sed -n 's/^MUTANT.\([0-9]*\),.*/\1/p' $(1))
mutants := $(call numbers,tests/simt/mutants.def)
mutants_night := $(call numbers,tests/simt/mutants_night.def)
# A rule each: make takes two patterns of one rule for two files that it makes
# at once.
define mutant
$(B)/$(1)/%.o: tests/simt/mutants.def tests/simt/mutants_night.def tests/simt/mutate tests/simt/simt.h \
               $(wildcard $(rooms_kernels:=/*.cu) $(rooms_kernels:=/*.h)) \
               $(B)/flags
	@mkdir -p $$(@D)
	$$(call say,BUG,$$*)
	$$(Q)kernel=$$$$(tests/simt/mutate $$* $$(@:.o=.src)) && \
	    $$(CXX) -I$$(@:.o=.src) $$(cppflags) -DMGPU_SIMT \
	    -include tests/simt/simt.h $$(kflags) -O0 -g0 -c -o $$@ $$$$kernel
endef
$(eval $(call mutant,mutants))
$(eval $(call mutant,race_mutants))
$(B)/tests/simt/mutants: $(patsubst %,$(B)/mutants/%.o,$(mutants))
$(B)/tests/simt/night/mutants: $(patsubst %,$(B)/mutants/%.o,$(mutants_night))

# The same with a race checker (tests/race/race.h), on the kernels of a
# convolutional network or on all of them. The compiler instruments for TSan,
# whose runtime is not linked; the emulator and the tests are as elsewhere.
$(B)/race/%.o: %.cu $(B)/flags
	@mkdir -p $(@D)
	$(call say,RACE,$<)
	$(Q)$(CXX) $(cppflags) -DMGPU_SIMT -include tests/simt/simt.h $(kflags) \
	    -O1 -g1 -fsanitize=thread -MMD -MP -c -o $@ $<
race_all    := $(patsubst $(B)/simt/%,$(B)/race/%, \
                 $(filter $(B)/simt/kernels/%,$(simt_objs)))
race_layers := $(filter %/batchnorm.o %/depthwise.o %/pointwise.o,$(race_all))
race_layers += $(filter-out $(race_layers:$(B)/race/%=$(B)/simt/%), \
                 $(race_all:$(B)/race/%=$(B)/simt/%))
race_checker := $(patsubst %,$(B)/simt/tests/%.o,race/race simt/simt \
                 simt/device_simt)
race_mutants := $(patsubst %,$(B)/race_mutants/%.o,$(shell sed -n \
                 's/^MUTANT.\([0-9]*\),.*/\1/p' tests/race/mutants.def))
$(B)/race_mutants/%.o: san := -fsanitize=thread
# At fixed addresses, which addr2line knows.
define race
$(B)/tests/race/$(1): $(B)/obj/tests/race/$(1).o $(B)/obj/tests/tap.o \
                      $(contract_objs) $(race_checker) $(2) $(call libs,kernels)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(link) -no-pie $$(ldlibs_kernels) $$(LDLIBS)
endef
$(eval $(call race,layers,$(race_layers)))
$(eval $(call race,whole,$(race_all)))
$(eval $(call race,checker,$(race_layers) $(race_mutants) \
    $(B)/race/tests/race/faulty.o))

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
# Libraries of NVIDIA's, as a machine without a GPU needs them for its tests.
fakes := $(if $(filter 1,$(CUPTI)),$(B)/tests/fake/cupti.so) \
         $(if $(filter 1,$(NVTX)),$(B)/tests/fake/nvtx.so)
$(B)/tests/fake/%.so: tests/fake/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(cppflags) $(cflags) $(ldharden_$(VARIANT)) -shared -fPIC \
	    $(cuda_cflags) -o $@ $<
$(B)/tests/unit/worker/profile/profile_cupti \
$(B)/tests/unit/worker/profile/trace_ranges: | $(fakes)
$(B)/tests/unit/kernels/blas_choice: | $(B)/tests/fake/openblas.so
ifeq ($(DNNL),1)
$(B)/tests/unit/kernels/gemm_narrow: | $(B)/tests/fake/dnnl.so
endif
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

# Counts the allocations of our own code, and those of the device.
$(B)/tests/mpi/memory: LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc \
    -Wl,--wrap=realloc,--wrap=strdup,--wrap=posix_memalign \
    -Wl,--wrap=aligned_alloc,--wrap=device_host_create \
    -Wl,--wrap=memory_plan_make

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

$(B)/tests/crash/crash: $(B)/obj/tests/crash/crash.o $(call libs,engine)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_engine) $(LDLIBS)
# With a GPU and NCCL that are not there (tests/mpi/fake_gpu.h).
$(B)/tests/mpi/gpu $(B)/tests/mpi/nccl: $(B)/obj/tests/mpi/fake_gpu.o
$(B)/tests/mpi/gpu $(B)/tests/mpi/nccl: LDFLAGS += -Wl,--wrap=dlopen,--wrap=dlsym \
  -Wl,--wrap=device_cuda_create,--wrap=device_cuda_count \
  -Wl,--wrap=device_cuda_card,--wrap=device_cuda_load
# mgpu-worker with such a GPU, for a daemon beside it.
fake_worker := $(B)/tests/fake/mgpu-worker
$(fake_worker): LDFLAGS += -Wl,--wrap=dlopen,--wrap=dlsym \
  -Wl,--wrap=device_cuda_create,--wrap=device_cuda_count \
  -Wl,--wrap=device_cuda_card,--wrap=device_cuda_load
$(fake_worker): $(B)/obj/worker/main.o $(B)/obj/tests/mpi/fake_gpu.o \
                $(call libs,worker)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_worker) $(LDLIBS)
$(B)/tests/mpi/%: $(B)/obj/tests/mpi/%.o $(B)/obj/tests/tap.o \
                  $(call libs,worker)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_worker) $(LDLIBS)

$(B)/tests/tokenizers/%: $(B)/obj/tests/tokenizers/%.o $(B)/obj/tests/tap.o \
                         $(call libs,worker)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) $(ldlibs_worker) $(LDLIBS)

# ---- running them -----------------------------------------------------------
# See tests/leak.h; protect_shadow_gap=0 is what CUDA needs under ASan.
test_env := MGPU_BIN=$(abspath $(B)/bin) MGPU_SRC=$(CURDIR) \
  MGPU_VARIANT=$(VARIANT) \
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
  GOMP_SPINCOUNT=2000 $(if $(filter tsan,$(VARIANT)), \
  TSAN_OPTIONS=suppressions=$(CURDIR)/tests/tsan.supp)
mpi_env := ASAN_OPTIONS=leak_check_at_exit=0:fast_unwind_on_malloc=0:protect_shadow_gap=0:intercept_tls_get_addr=0 \
  LSAN_OPTIONS=suppressions=$(CURDIR)/tests/lsan.supp:print_suppressions=0 \
  OMP_NUM_THREADS=1
MPI_RANKS ?= 1 2 3
# And for what depends on the number; empty: not.
MPI_MORE  ?= 4
# What takes longest: on two ranks; at night on one and three, too. What trains
# on a fake GPU and what is resumed: on one and two; at night on three, too.
MPI_TWO   ?= llm llm_archs resize stopping
MPI_FEW   ?= gpu train
mpi_two   := $(filter $(MPI_TWO:%=$(B)/tests/mpi/%),$(mpi_tests))
mpi_few   := $(filter $(MPI_FEW:%=$(B)/tests/mpi/%),$(mpi_tests))

check: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) check-build
	$(Q)$(MAKE) --no-print-directory check-run
# Each benchmark has to compile, though check runs none. gpu_shared, gpu_table,
# gpu_text and gpu_time are parts of gpu_model, llm_parts of llm_step.
benches   := $(filter-out %/gpu_shared %/gpu_table %/gpu_text %/gpu_time \
                 %/llm_parts, \
                 $(patsubst tests/bench/%.c,$(B)/tests/bench/%, \
                 $(wildcard tests/bench/*.c)))
# What the libraries of a GPU say of themselves, for the bundle's doctor.
gpu_versions := $(B)/tests/gpu/versions
$(gpu_versions): $(B)/obj/tests/gpu/versions.o
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link) -ldl $(LDLIBS)
check-build: all $(units) $(contracts) $(mpi_tests) $(simt_tests) $(slurm_progs) \
             $(fault_progs) $(fake_worker) \
             $(if $(filter release,$(VARIANT)),$(closed) $(benches) \
                 $(gpu_versions) $(B)/tests/crash/crash \
                 $(B)/tests/bench/preload/clock.so)
# They wait more than they compute: more at once than there are cores.
prove := prove --timer -j$$((4 * $(JOBS))) --failures --comments --exec tests/run
# Every kind of test runs, also after one has failed; tally counts them all.
tally := tests/tally $(B)/check.log
check-run: check-build
	$(Q)rm -f $(B)/check.log
	$(Q)$(test_env) $(tally) $(prove) $(call longest_first,$(units) \
	    $(contracts) $(simt_tests) $(fault_progs) $(bats_tests) \
	    $(slurm_progs) $(slurm_tests))
	$(Q)for n in $(MPI_RANKS); do \
	    two= few=; [ $$n -ne 2 ] || two='$(mpi_two)'; \
	    [ $$n -gt 2 ] || few='$(mpi_few)'; \
	    $(test_env) $(mpi_env) $(tally) \
	    prove -j$(JOBS) --failures --exec \
	    "tests/run mpirun -n $$n --oversubscribe --bind-to none" $$two $$few \
	    $(call longest_first,$(filter-out $(mpi_two) $(mpi_few), \
	    $(mpi_tests))); done
	$(if $(MPI_MORE),$(Q)$(test_env) $(mpi_env) $(tally) \
	    prove -j$(JOBS) --failures --exec \
	    "tests/run mpirun -n $(MPI_MORE) --oversubscribe --bind-to none" \
	    $(filter %/ranks %/strategies %/llm_shared,$(mpi_tests)))
	$(Q)$(tally)
# Each file has a cluster of its own (tests/slurm/testbed).
check-slurm: all $(slurm_progs)
	$(if $(slurm_tests),$(Q)$(test_env) $(prove) \
	    $(call longest_first,$(slurm_progs) $(slurm_tests)))

# The same tree on Debian 13, in a chroot that .ci/debian13 makes: the unit and
# contract tests, most of those under MPI on two ranks, those on Slurm. The
# rest, which .ci/nightly runs, is what these variables leave out, two demos,
# and the unit tests once more, with the flags of a release; of those on Slurm
# the ones that wait or compute longest, and the one whose nodes have host names
# of their own. Those of MPI and the kernels' own are the longest; policies, the
# simulator and the engine's contracts call little of Debian's.
debian13-check:
	$(Q)sh .ci/debian13 make JOBS=$(JOBS) debian13-half demo-run \
	    demo-slurm-run
debian13_rest := $(patsubst %,tests/slurm/%.bats,daemon launch nodes people \
                   resize slurmctld) %/slurm/helper_faults
debian13_night := $(B)/tests/unit/kernels/device $(B)/tests/unit/policy/% \
                  $(B)/tests/unit/sim/% $(B)/tests/contract/engine_%
debian13-half:
	$(Q)$(MAKE) --no-print-directory MPI_RANKS=2 MPI_MORE= \
	    MPI_SKIP='llm ranks resize train llm_shared strategies dpo gpu' \
	    units='$(filter-out $(debian13_night),$(units))' \
	    contracts='$(filter-out $(debian13_night),$(contracts))' \
	    simt_tests= fault_progs= bats_tests= benches= closed= \
	    slurm_progs='$(filter-out $(debian13_rest),$(slurm_progs))' \
	    slurm_tests='$(filter-out $(debian13_rest),$(slurm_tests))' check
debian13-rest:
	$(Q)$(MAKE) --no-print-directory MPI_RANKS='1 2 3' MPI_TWO= MPI_FEW= \
	    contracts='$(sort $(long_contracts:%=$(B)/tests/contract/%) \
	        $(filter $(debian13_night),$(contracts)))' \
	    slurm_progs='$(filter $(debian13_rest),$(slurm_progs))' \
	    slurm_tests='$(filter $(debian13_rest),$(slurm_tests))' check
	$(Q)$(MAKE) --no-print-directory demo-run demo-slurm-run

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

gpu_bench := $(addprefix $(B)/tests/bench/,kernels gpu_step llm_step)
# On a machine with a GPU, one command each. gpu-check fails where there is
# none: a skipped check is no check. DEVICE=host shows that the scripts work.
DEVICE ?= cuda
gpu_units := $(patsubst %,$(B)/tests/unit/%,kernels/cuda kernels/determinism \
               worker/cv_golden worker/cv_precision worker/llm_golden \
               worker/llm_step worker/llm_stories)
# A machine with a GPU may have no compiler and no MPI, which needs.sh tells.
gpu-check gpu-bench: gpu-%:
	$(Q)CC='$(CC)' CXX='$(CXX)' NVCC='$(NVCC)' DEVICE=$(DEVICE) \
	    tests/gpu/needs.sh $@
	$(Q)$(MAKE) --no-print-directory gpu-$*-run
gpu-check-run: all $(gpu_units) $(B)/tests/mpi/nccl
	$(Q)$(test_env) DEVICE=$(DEVICE) $(foreach v,PARTS LIMIT, \
	    $(if $($(v)),$(v)='$($(v))')) MGPU_TESTS=$(abspath $(B)/tests) \
	    tests/gpu/check.sh
# One folder with all of it, for a machine without our libraries.
gpu-bundle: all $(gpu_units) $(B)/tests/mpi/nccl $(gpu_bench) $(gpu_versions) \
            $(B)/tests/gpu/predictions.tsv
	$(Q)MGPU_BUILD=$(abspath $(B)) MGPU_SRC=$(CURDIR) \
	    tests/gpu/bundle.sh $(or $(BUNDLE),$(abspath $(B))/gpu-bundle)
# From that folder: what is looked at first on a GPU that has run nothing of it.
gpu-first-contact: gpu-bundle
	$(Q)DEVICE=$(DEVICE) $(call given,PARTS LIMIT OUT LLM_SHAPE PYTHON) \
	    $(or $(BUNDLE),$(abspath $(B))/gpu-bundle)/run first-contact $(BLOCKS)
# VARIABLE='VALUE' of those that are set, if only to nothing: SIZES= is none.
given = $(foreach v,$(1),$(if $(filter undefined,$(origin $(v))),,$(v)='$($(v))'))
gpu-bench-run: all $(gpu_bench) $(B)/tests/gpu/predictions.tsv
	$(Q)$(if $(plugin),MGPU_CUDA_PLUGIN=$(abspath $(plugin))) \
	    DEVICE=$(DEVICE) $(call given,SIZES BATCHES PRECISIONS LLM LLM_SHAPE \
	    RANKS ROUNDS RESULTS BUDGET RESUME PYTHON) \
	    PREDICTED=$(abspath $(B))/tests/gpu/predictions.tsv \
	    MGPU_BENCH=$(abspath $(B)/tests/bench) tests/gpu/bench.sh

# All that includes a header of CUDA, NCCL, CUPTI or NVTX, and its tests with
# NVIDIA's libraries faked.
cuda_units := $(patsubst %,$(B)/tests/unit/%,kernels/cuda \
                worker/profile/profile_cupti worker/profile/trace_ranges)
cuda-parts: $(plugin) $(B)/bin/mgpu-worker $(cuda_units) $(B)/tests/mpi/nccl
	$(Q)$(test_env) prove --exec tests/run $(cuda_units)
	$(Q)$(test_env) $(mpi_env) prove --exec \
	    "tests/run mpirun -n 2 --oversubscribe --bind-to none" \
	    $(B)/tests/mpi/nccl
# The same with CUDA 12.4 of Debian 13, in a chroot: as root, by hand.
cuda12-check:
	$(Q)JOBS=$(JOBS) sh tests/portability/cuda12.sh build/cuda12

# Every kernel in the emulator, watched for races.
check-races: $(B)/tests/race/whole
	$(Q)$(test_env) prove --timer --exec tests/run $<

# The tests of kernels and workers, whole models and the demos, with the
# instructions of other processors and 1, 2 and 4 threads: PARTS="units demos";
# DNNLS=0: without oneDNN.
numeric := $(filter $(B)/tests/unit/kernels/% $(B)/tests/unit/worker/%, \
             $(units)) $(B)/tests/contract/model
check-processors: all $(numeric)
	$(Q)$(test_env) JOBS=$(JOBS) $(foreach v,PARTS CORES SIMDS THREADS DNNLS, \
	    $(if $($(v)),$(v)='$($(v))')) tests/portability/processors.sh $(numeric)
# Bugs in kernels, on purpose, for which check has no time.
check-mutants: $(B)/tests/simt/night/mutants
	$(Q)$(test_env) prove --timer --exec tests/run $<

# Kills a daemon at ROUNDS random moments; a failure names its SEED.
crash: all $(B)/tests/crash/crash
	$(Q)$(B)/tests/crash/crash $(or $(ROUNDS),1000) \
	    $(or $(SEED),$(shell date +%s)) $(abspath $(B)/bin)

# Random schedules of resizes, with a daemon that dies at any moment: ROUNDS
# worlds from SEED on. check has the same 1,000 each time.
resizes: $(B)/tests/contract/engine_resize_random
	$(Q)$< $(or $(SEED),$(shell date +%Y%m%d)) $(or $(ROUNDS),1000)

# Fails each call of a daemon and of the tools, of each kind in each way.
fault: all $(fault_progs)
	$(Q)$(test_env) MGPU_FAULT=all prove --timer -j$(JOBS) --comments \
	    --exec tests/run $(fault_progs)

# Meta's tokenizers, which may not be shipped: DIR has llama2-tokenizer and
# llama3-tokenizer, each with files and golden ids (tests/tokenizers/meta.c).
check-tokenizers: $(B)/tests/tokenizers/meta
	$(Q)test -n '$(DIR)' || { echo 'check-tokenizers needs DIR=' >&2; exit 64; }
	$(Q)gzip -dc '$(DIR)/llama3-tokenizer/tokenizer.llama3.json.gz' \
	    >$(B)/tests/tokenizers/tokenizer.json
	$(Q)$(B)/tests/tokenizers/meta '$(DIR)' $(B)/tests/tokenizers/tokenizer.json

# Rows that may not be shipped, with Meta's tokenizers: DIR has alpaca, samsum
# and the two directories above (tests/tokenizers/datasets.c).
check-datasets: $(B)/tests/tokenizers/datasets
	$(Q)test -n '$(DIR)' || { echo 'check-datasets needs DIR=' >&2; exit 64; }
	$(Q)$(test_env) $(B)/tests/tokenizers/datasets '$(DIR)'

# Files of 4 GiB, which take a minute each.
check-long-rows: $(B)/tests/tokenizers/long_rows
	$(Q)$(B)/tests/tokenizers/long_rows $(or $(MIB),4096)

# The page of mgpu-web in a headless Chromium; screenshots of its views are kept.
# SMOKE=1: the part that .ci/run runs. TESTS: those alone, as test_queue.QueueTest.
web-check: all
	$(Q)SMOKE=$(SMOKE) MGPU_BIN='$(abspath $(B)/bin)' \
	    MGPU_SHOTS='$(abspath $(B)/web-shots)' sh tests/web/run $(TESTS)

# How fast it is with a long queue, and with many curves.
web-bench: all
	$(Q)MGPU_BIN='$(abspath $(B)/bin)' /usr/bin/python3 tests/web/bench.py
	$(Q)MGPU_BIN='$(abspath $(B)/bin)' /usr/bin/python3 tests/web/bench_curves.py

# contrib/python with Debian's python3, or with PYTHON=. TESTS: those alone, as
# test_jobs.Jobs.
python-check: all
	$(Q)$(if $(PYTHON),PYTHON='$(PYTHON)') MGPU_BIN='$(abspath $(B)/bin)' \
	    sh tests/python/run $(TESTS)
