# fuzz.mk - fuzz targets: what each links, and how they run.
.PHONY: fuzz

fuzz      := $(patsubst tests/fuzz/%.c,build/fuzz/%,$(filter-out $(absent), \
               $(wildcard tests/fuzz/*.c)))

fuzz_obj   = $(patsubst %.c,build/fuzz/obj/%.o,$(1))
fuzz_flags := -g -O1 -fno-sanitize-recover=all
fuzz_san   := address,undefined,float-cast-overflow
build/fuzz/helper_wire: $(call fuzz_obj,slurm/protocol/helper_wire.c \
    slurm/protocol/helper_messages.c)
build/fuzz/files_wire: $(call fuzz_obj,slurm/as_user/files_wire.c)
build/fuzz/safetensors: $(call fuzz_obj,worker/checkpoint/safetensors.c)
build/fuzz/llama_config: $(call fuzz_obj,worker/llm/config/llama_config.c \
        worker/llm/config/llama_arch.c worker/llm/config/llama_rope.c \
        worker/llm/config/config_value.c \
        worker/llm/llama_ends.c worker/llm/llama_shape.c \
        worker/llm/files/adapter_file.c worker/llm/files/adapter_ranks.c \
        worker/llm/files/name_pattern.c worker/checkpoint/crc64.c \
        worker/checkpoint/safetensors.c \
        worker/checkpoint/safetensors_write.c)
build/fuzz/hf_index: $(call fuzz_obj,worker/llm/files/hf_index.c)
build/fuzz/adapter_config: $(call fuzz_obj,worker/llm/files/adapter_file.c \
    worker/llm/files/adapter_ranks.c worker/llm/files/name_pattern.c \
    worker/checkpoint/crc64.c \
    worker/checkpoint/safetensors.c \
    worker/checkpoint/safetensors_write.c)
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
row_readers := $(addprefix worker/data/rows/, \
    data_rows.c gz_stream.c json_rows.c row.c table_rows.c)
token_readers := $(row_readers) \
    jobs/text/row_split.c \
    worker/data/chat/chat_render.c \
    worker/data/chat/chat_table.c \
    worker/data/chat/chat_template.c \
    worker/data/rows/token_cut.c \
    worker/data/text/chat_format.c \
    worker/data/text/messages.c \
    worker/data/text/ordered_work.c \
    worker/data/text/packing.c \
    worker/data/text/prompt_completion.c \
    worker/data/text/token_data.c \
    worker/data/text/token_encode.c \
    worker/data/text/token_list.c \
    worker/data/text/token_read.c \
    worker/checkpoint/crc64.c \
    worker/llm/batches/token_rows.c
build/fuzz/chat_template: $(call fuzz_obj,worker/data/chat/chat_table.c \
    worker/data/chat/chat_template.c)
build/fuzz/token_rows: $(call fuzz_obj,$(token_readers))
build/fuzz/token_rows: fuzz_libs := -lz
build/fuzz/token_file: $(call fuzz_obj,$(token_readers) \
    worker/data/cache/cache_trust.c \
    worker/data/cache/token_file.c)
build/fuzz/token_file: fuzz_libs := -lz
build/fuzz/data_rows: $(call fuzz_obj,$(row_readers))
build/fuzz/data_rows: fuzz_libs := -lz
build/fuzz/tokenizer: $(call fuzz_obj,$(addprefix worker/data/tokenizer/, \
    added_tokens.c bpe_encode.c bpe_merge.c bpe_vocab.c json_pipeline.c \
    pretokenize.c text_cut.c text_steps.c tokenizer.c tokenizer_bpe.c \
    tokenizer_json.c tokenizer_ranks.c unicode_text.c))
build/fuzz/tokenizer: fuzz_libs := -lpcre2-8 -lutf8proc
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
# Of the daemon all but what main() puts together.
fuzz_not  := scheduler/ctld/args.c \
    scheduler/ctld/startup/allocator_local.c \
    scheduler/ctld/startup/allocator_slurm.c \
    scheduler/ctld/startup/daemonize.c \
    scheduler/ctld/ingest/spool_drain.c \
    scheduler/ctld/startup/reload.c \
    scheduler/ctld/startup/setup.c \
    scheduler/ctld/startup/privileges.c
fuzz_ctld := $(call fuzz_obj,$(call srcs,engine) $(call srcs,policy) \
    $(call srcs,db) \
    slurm/as_user/files_direct.c \
    slurm/place_text.c \
    $(filter-out $(fuzz_not),$(call srcs,ctld)))
build/fuzz/codec: $(call fuzz_obj,scheduler/ctld/maintenance/audit_log.c \
    scheduler/engine/events/event_codec.c \
    scheduler/engine/events/submit_codec.c \
    scheduler/engine/events/json_nomem.c)
build/fuzz/traces: $(call fuzz_obj,$(addprefix scheduler/sim/trace/,csv_trace.c \
    gavel_table.c gz_text.c lines.c mgpu_trace.c pollux_app.c pollux_math.c \
    sacct_trace.c scaling_law.c sim_trace.c size_table.c slurm_nodes.c \
    slurm_text.c speed.c swf_trace.c) $(addprefix scheduler/sim/past/, \
    past_settings.c past_spec.c) slurm/helper/gres.c)
build/fuzz/traces: fuzz_libs := -lz
build/fuzz/ctld: $(fuzz_ctld) $(call fuzz_obj,tests/tap.c \
    scheduler/ctld/ingest/spool_drain.c)
build/fuzz/drain: $(fuzz_ctld)
build/fuzz/ctld build/fuzz/drain: fuzz_libs := -lsqlite3
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
