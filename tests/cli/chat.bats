#!/usr/bin/env bats
# chat.bats - mgpu-model generate --chat, a line of standard input after the
# other, and the tokens a second that generate prints.
# shellcheck disable=SC2094,SC2154 # json is a function and a file; run sets stderr

bats_require_minimum_version 1.5.0
load helpers

model=$MGPU_BIN/mgpu-model
stories=$MGPU_SRC/jobs/examples/stories260K

# "turns": a model of 512 positions, a tokenizer of bytes with the tokens of
# ChatML, and a chat template that is ours. The token that ends an answer is $1.
turns() {
    mkdir -p turns
    cp "$stories/model.safetensors" "$MGPU_SRC/tests/golden/chat_ours.jinja" turns
    mv turns/chat_ours.jinja turns/chat_template.jinja
    jq '.eos_token_id = 509' "$stories/config.json" >turns/config.json
    bytes_json "[{\"id\": 510, \"content\": \"<|im_start|>\"},
    {\"id\": ${1:-511}, \"content\": \"<|im_end|>\"}]" >turns/tokenizer.json
}

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    turns
}

# chat OPTION...: answers of at most 12 tokens, a line of JSON each.
chat() {
    "$model" --json generate turns --chat --precision fp32 --device host \
        --max-new-tokens 12 "$@"
}

@test "chat: answers with kept keys and values are those without" {
    printf '%s\n' 'One day' '' 'And then?' 'Why?' >lines
    chat <lines >kept
    chat --no-cache <lines >all
    [ "$(wc -l <kept)" = 3 ]
    jq -c 'del(.kept_tokens)' kept >kept.ids
    jq -c 'del(.kept_tokens)' all | cmp - kept.ids
    # The first prompt is less than half of the second.
    [ "$(jq -s '[.[].kept_tokens] | .[0] == 0 and .[1] == 0 and .[2] > 20' kept)" = true ]
    [ "$(jq -s '[.[].kept_tokens] | add' all)" = 0 ]
    # <s>, a turn of ChatML, its beginning: im_start "user\n" TEXT im_end "\n"
    [ "$(jq -s '.[0].prompt_tokens' kept)" = $((1 + 5 + 7 + 1 + 1 + 1 + 10)) ]
    [ "$(jq -s '.[0].ids | length' kept)" = 12 ]
}

@test "chat: the system's message, and what a conversation begins again with" {
    printf '%s\n' 'One day' >line
    printf '%s\n' 'Another day' /clear 'One day' /exit 'No day' >lines
    chat --system 'be kind' <line >one
    chat --system 'be kind' <lines >two
    [ "$(wc -l <two)" = 2 ]
    [ "$(jq -s -c '.[1] | [.prompt_tokens, .ids]' two)" = "$(jq -c '[.prompt_tokens, .ids]' one)" ]
    [ "$(jq '.prompt_tokens' one)" -gt "$(chat <line | jq '.prompt_tokens')" ]
}

@test "chat: stops at the token that ends a turn" {
    printf '%s\n' 'One day' >line
    chat <line >all
    [ "$(jq -r .end all)" = length ]
    # an id of the answer that no text of the prompt has
    turns "$(jq '[.ids[] | select(. > 255 and . < 509)][0]' all)"
    chat --max-new-tokens 40 <line >some
    [ "$(jq -r .end some)" = token ]
}

@test "chat: text as it is made, and tokens a second at the end" {
    printf '%s\n' 'One day, a boy named Tim went to the park with his mom and saw a big red ball.' \
        'And then?' >lines
    run --separate-stderr "$model" generate turns --chat --max-new-tokens 9 <lines
    [ "$status" -eq 0 ]
    [ "${stderr_lines[0]}" = "mgpu-model: the answer is cut: see --max-new-tokens (9 tokens)" ]
    [[ ${stderr_lines[2]} =~ ^prompt:\ [0-9]+\ tokens\ \([0-9]+\ kept\)(,\ [0-9.]+\ tokens/s)?\;\ generation:\ 18\ tokens(,\ [0-9.]+\ tokens/s)?$ ]]
    [ "${#stderr_lines[@]}" -eq 3 ]
    run --separate-stderr "$model" -q generate turns --chat --max-new-tokens 9 <lines
    [ "$status" -eq 0 ] && [ -z "$stderr" ]
    run --separate-stderr "$model" generate "$stories" --prompt "One day" \
        --max-new-tokens 5
    [ "$status" -eq 0 ]
    [[ $stderr =~ ^prompt:\ [0-9]+\ tokens(,\ [0-9.]+\ tokens/s)?\;\ generation:\ 5\ tokens(,\ [0-9.]+\ tokens/s)?$ ]]
}

@test "chat: a full context forgets the oldest messages" {
    printf '%s\n' 'One day, a boy' 'named Tim went' 'to the park' >lines
    run --separate-stderr chat --context 100 <lines
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 3 ]
    grep -qx 'mgpu-model: the context of 100 tokens is full: the oldest 2 messages are forgotten' \
        <<<"$stderr"
    # Of what is left only the first tokens are as before: all are computed.
    [ "$(jq -s '.[2].kept_tokens' <<<"$output")" = 0 ]
    [ "$(chat --context 100 --no-cache -q <lines 2>no | jq -c .ids)" = "$(jq -c .ids <<<"$output")" ]
    printf '%099d\n' 7 >lines
    run --separate-stderr chat --context 100 <lines
    [ "$status" -eq 65 ] && [[ $output == *"context has room for 88"* ]]
    run --separate-stderr chat --context 513 <lines
    [ "$status" -eq 65 ] && [[ $output == *"the model has 512 positions"* ]]
}

@test "chat: what does not go with it is refused" {
    for words in '--chat --prompt x' '--chat --row 1 --data x' \
        '--system x --prompt x' '--context 9 --prompt x'; do
        # shellcheck disable=SC2086 # words
        run "$model" generate turns $words </dev/null
        [ "$status" -eq 64 ]
    done
    rm turns/chat_template.jinja
    run "$model" generate turns --chat </dev/null
    [ "$status" -eq 65 ]
    [[ $output == "mgpu-model: --chat: turns has no chat template: name the job"* ]]
}

lines_in() { [ "$(wc -l <"$1")" -eq "$2" ]; }
has_more() { [ "$(wc -c <"$1")" -gt "$2" ]; }

# Answers have 19,000 tokens: a signal at the first ones comes before the last.
@test "chat: Ctrl-C ends an answer, twice the program" {
    local pid had status=0
    jq '.max_position_embeddings = 20000 | .eos_token_id = 508' \
        "$stories/config.json" >turns/config.json
    mkfifo in
    "$model" generate turns --chat --precision fp32 --device host \
        --context 20000 --max-new-tokens 19000 <in >out 2>err &
    pid=$!
    exec 7>in
    echo 'One day' >&7
    wait_for 60 has_more out 0
    kill -INT "$pid"
    wait_for 60 lines_in out 1
    had=$(wc -c <out)
    echo 'And then?' >&7
    wait_for 60 has_more out "$had"
    kill -INT "$pid"
    wait_for 60 lines_in out 2
    kill -INT "$pid"
    exec 7>&-
    wait "$pid" || status=$?
    [ "$status" -eq 130 ]
    [ ! -s err ]
}
