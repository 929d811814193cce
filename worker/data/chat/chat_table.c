/* chat_table.c - see chat_table.h.
 * src  the chat_template of each model in chat_known.def */
#include "worker/data/chat/chat_table.h"

#include <stddef.h>

#define BOS "\1"
#define EOS "\2"

#define CHATML(first)                                                     \
    .begin = (first), .system = {"<|im_start|>system\n", "<|im_end|>\n"}, \
    .user = {"<|im_start|>user\n", "<|im_end|>\n"},                       \
    .assistant = {"<|im_start|>assistant\n", "<|im_end|>\n"},             \
    .asks = "<|im_start|>assistant\n", .end = "<|im_end|>",               \
    .tokens = {"<|im_start|>", "<|im_end|>"}, .needs = 2

#define HEADER(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define LLAMA3                                                            \
    .begin = BOS, .user = {HEADER("user"), "<|eot_id|>"},                 \
    .assistant = {HEADER("assistant"), "<|eot_id|>"}, .strips = true,     \
    .asks = HEADER("assistant"), .end = "<|eot_id|>",                     \
    .tokens = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}, \
    .needs = 3

#define INST .asks = "", .tokens = {"[INST]", "[/INST]"}

static const struct chat_table table[] = {
    {.prompt = PROMPT_HERMES,
     .name = "hermes",
     CHATML(""),
     .marks = {"<|im_start|>"}},
    {.prompt = PROMPT_HERMES3,
     .name = "hermes3",
     CHATML(BOS),
     .no_system = "You are a helpful assistant.",
     .marks = {"<|im_start|>", "You are a helpful assistant", "bos_token"}},
    {.prompt = PROMPT_QWEN2,
     .name = "qwen2",
     CHATML(""),
     .no_system = "You are a helpful assistant.",
     .marks = {"<|im_start|>", "You are a helpful assistant"}},
    {.prompt = PROMPT_QWEN2_5,
     .name = "qwen2_5",
     CHATML(""),
     .no_system = "You are Qwen, created by Alibaba Cloud. You are a helpful "
                  "assistant.",
     .marks = {"<|im_start|>", "You are Qwen", "Alibaba"}},
    {.prompt = PROMPT_QWEN3,
     .name = "qwen3",
     CHATML(""),
     .thinks = true,
     .marks = {"<|im_start|>", "<think>"}},
    {.prompt = PROMPT_SMOLLM2,
     .name = "smollm2",
     CHATML(""),
     .no_system = "You are a helpful AI assistant named SmolLM, trained by "
                  "Hugging Face",
     .marks = {"<|im_start|>", "SmolLM"}},
    {.prompt = PROMPT_LLAMA2,
     .name = "llama2",
     .begin = "",
     .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     .user = {BOS "[INST] ", " [/INST]"},
     .assistant = {" ", " " EOS},
     .where = SYSTEM_FIRST,
     .strips = true,
     INST,
     .marks = {"[INST]", "<<SYS>>"}},
    {.prompt = PROMPT_LLAMA3,
     .name = "llama3",
     LLAMA3,
     .system = {HEADER("system"), "<|eot_id|>"},
     .marks = {"<|start_header_id|>"}},
    {.prompt = PROMPT_LLAMA3_1,
     .name = "llama3_1",
     LLAMA3,
     .system = {HEADER("system") "Cutting Knowledge Date: December 2023\n"
                                 "Today Date: 26 Jul 2024\n\n",
                "<|eot_id|>"},
     .no_system = "",
     .marks = {"<|start_header_id|>", "Cutting Knowledge Date"}},
    {.prompt = PROMPT_MISTRAL,
     .name = "mistral",
     .begin = BOS,
     .user = {"[INST] ", " [/INST]"},
     .assistant = {"", EOS},
     .where = SYSTEM_REFUSED,
     INST,
     .marks = {"[INST]"}},
    {.prompt = PROMPT_MISTRAL_V0_1,
     .name = "mistral_v0_1",
     .begin = BOS,
     .user = {"[INST] ", " [/INST]"},
     .assistant = {"", EOS " "},
     .where = SYSTEM_REFUSED,
     INST,
     .marks = {"[INST]", "eos_token + ' '"}},
    {.prompt = PROMPT_MISTRAL_V0_3,
     .name = "mistral_v0_3",
     .begin = BOS,
     .user = {" [INST] ", " [/INST]"},
     .assistant = {" ", " " EOS},
     .where = SYSTEM_DROPPED,
     INST,
     .marks = {"' [INST] '", "[TOOL_CALLS]"}},
    {.prompt = PROMPT_MISTRAL_V1,
     .name = "mistral_v1",
     .begin = BOS,
     .system = {"", "\n\n"},
     .user = {" [INST] ", " [/INST]"},
     .assistant = {" ", EOS},
     .where = SYSTEM_FIRST,
     INST,
     .marks = {"' [INST] '", "system_message"}},
    {.prompt = PROMPT_MISTRAL_V3,
     .name = "mistral_v3",
     .begin = BOS,
     .system = {"", "\n\n"},
     .user = {"[INST] ", "[/INST]"},
     .assistant = {" ", EOS},
     .where = SYSTEM_LAST,
     INST,
     .marks = {"[INST] ", "[/INST]", "system_message"}},
    {.prompt = PROMPT_MISTRAL_NEMO,
     .name = "mistral_nemo",
     .begin = BOS,
     .system = {"", "\n\n"},
     .user = {"[INST]", "[/INST]"},
     .assistant = {"", EOS},
     .where = SYSTEM_LAST,
     INST,
     .marks = {"\"[INST]\"", "[/INST]", "system_message"}},
    {.prompt = PROMPT_ZEPHYR,
     .name = "zephyr",
     .begin = "",
     .system = {"<|system|>\n", EOS "\n"},
     .user = {"<|user|>\n", EOS "\n"},
     .assistant = {"<|assistant|>\n", EOS "\n"},
     .asks = "<|assistant|>\n",
     .tokens = {"<|system|>", "<|user|>", "<|assistant|>"},
     .marks = {"<|user|>", "<|assistant|>", "eos_token"}},
};

const struct chat_table *chat_table_at(int i)
{
    return i >= 0 && (size_t)i < sizeof(table) / sizeof(table[0]) ? &table[i]
                                                                  : NULL;
}

const struct chat_table *chat_table_of(enum spec_prompt prompt)
{
    for (int i = 0; chat_table_at(i) != NULL; i++)
        if (table[i].prompt == prompt)
            return &table[i];
    return NULL;
}
