# draw.awk - the numbers that made traces are drawn from: the same with every awk.
# awk "$(cat draw.awk)"'...'
function draw() { # 0..1, of the stream `state`
    state = (state * 69069 + 12345) % 4294967296
    return int(state / 256) / 16777216
}
function seed_draws(seed) {
    state = (seed * 7919 + 104729) % 4294967296
    draw(); draw(); draw()
}
