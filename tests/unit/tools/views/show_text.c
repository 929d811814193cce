/* show_text.c - the view of a language model's job: tokens, and no accuracy. */
#include "scheduler/tools/views/show.h"

#include "tests/tap.h"
#include "tests/unit/tools/views/shown.h"

static void test_text(void)
{
    json_t *job = load(
        "{\"job\":{\"id\":5,\"display_id\":\"5\",\"name\":\"m\",\"user\":"
        "\"anna\",\"kind\":\"llm\",\"state\":\"COMPLETED\",\"attempt\":1,"
        "\"gpus\":2,\"gpus_min\":2,\"gpus_max\":2,\"spec\":{\"method\":"
        "\"lora\",\"train\":{\"epochs\":2,\"batch_size\":1,"
        "\"gradient_accumulation_steps\":8,\"precision\":\"bf16\",\"seed\":7,"
        "\"optimizer\":{\"name\":\"adamw\",\"lr\":0.0003},\"checkpointer\":"
        "{\"checkpoint_dir\":\"/models/Llama\\u001b/\"},\"model\":"
        "{\"lora_rank\":8},\"tokenizer\":{\"max_seq_len\":512},\"dataset\":"
        "{\"template\":\"alpaca\",\"packed\":true}}}},\"attempts\":[]}");
    json_t *epochs = load(
        "{\"columns\":[\"attempt\",\"epoch\",\"seconds\","
        "\"train_loss\",\"eval_loss\",\"eval_accuracy\","
        "\"samples_per_s\",\"tokens_per_s\"],\"rows\":["
        "[1,1,9.5,0.7,0.25,null,12,6144],[1,2,9.4,0.1,0.5,null,12,6200]]}");
    struct error err = ERROR_INIT;
    begin();
    is_int(show_job(&conf, job, epochs, NULL, &err), 0, "a language model");
    (void)end();
    ok(has(" workload   Llama\\x1b, lora of rank 8, packed alpaca, up to 512 "
           "tokens a row, 2 epochs, batch 1 x 8/GPU, bf16, adamw lr 0.0003, "
           "seed 7\n"),
       "its workload");
    ok(has(" result     test loss 0.2500 (best, epoch 1)\n"), "its least loss");
    ok(has("TOKENS/S") && has("6144") && !has("SAMPLES/S") && !has("TEST ACC"),
       "tokens, and no accuracy");
    json_decref(job);
    json_decref(epochs);
}

int main(void)
{
    test_text();
    free(shown);
    return tap_done();
}
