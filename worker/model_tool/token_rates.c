/* token_rates.c - see token_rates.h. */
#include "worker/model_tool/token_rates.h"

void token_rates_begin(struct token_rates *r, int64_t prompt, int64_t kept)
{
    r->prompt += prompt - kept;
    r->kept += kept;
    r->made_before = r->made;
    r->begin_s = r->clock->now_s(r->clock);
    r->first_s = -1;
}

void token_rates_add(struct token_rates *r)
{
    if (r->made++ == r->made_before)
        r->first_s = r->clock->now_s(r->clock);
}

void token_rates_end(struct token_rates *r, bool by_token)
{
    const double now_s = r->clock->now_s(r->clock);
    const int64_t made = r->made - r->made_before;
    if (made == 0) {
        r->prompt_s += now_s - r->begin_s;
        return;
    }
    r->prompt_s += r->first_s - r->begin_s;
    r->made_s += now_s - r->first_s;
    r->passes += made - 1 + by_token;
}

double token_rates_prompt(const struct token_rates *r)
{
    return r->prompt_s > 0 ? (double)r->prompt / r->prompt_s : 0;
}

double token_rates_made(const struct token_rates *r)
{
    return r->made_s > 0 ? (double)r->passes / r->made_s : 0;
}

/* Three digits: 1520, 56.1, 0.25. */
static int add_rate(double rate, struct buf *out, struct error *err)
{
    if (!(rate > 0))
        return 0;
    return buf_addf(out, err, ", %.*f tokens/s",
                    rate >= 100  ? 0
                    : rate >= 10 ? 1
                                 : 2,
                    rate);
}

static int add_count(const char *what, int64_t n, struct buf *out,
                     struct error *err)
{
    return buf_addf(out, err, "%s: %lld token%s", what, (long long)n,
                    n == 1 ? "" : "s");
}

int token_rates_text(const struct token_rates *r, struct buf *out,
                     struct error *err)
{
    if (add_count("prompt", r->prompt, out, err) < 0 ||
        (r->kept > 0 &&
         buf_addf(out, err, " (%lld kept)", (long long)r->kept) < 0) ||
        add_rate(token_rates_prompt(r), out, err) < 0 ||
        buf_addstr(out, "; ", err) < 0 ||
        add_count("generation", r->made, out, err) < 0)
        return -1;
    return add_rate(token_rates_made(r), out, err);
}
