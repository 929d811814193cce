// job_log.js - the end of a job's log, as it grows. However long the log is, the
// page has a bounded part of it.
import {el, perFrame, setText} from './dom.js';
import {isFinal} from './format.js';

const KEPT = 200000; // characters; a browser lays them out in some milliseconds
const RETRY_MS = 3000;

export class JobLog {
  constructor(api, job) {
    Object.assign(this, {api, job, text: '', left: 0});
    this.abort = new AbortController();
    this.follow = el('input', {type: 'checkbox', checked: true});
    this.pre = el('pre', {class: 'log', tabindex: '0', role: 'log', 'aria-label': 'Log', 'aria-live': 'off'});
    this.note = el('p', {class: 'quiet'}, 'Nothing was printed yet.');
    this.el = el('section', {'aria-label': 'Log'}, el('div', {class: 'head'}, el('h2', null, 'Log'),
      el('label', {class: 'inline'}, this.follow, 'Stay at the end')), this.note, this.pre);
    this.draw = perFrame(() => this.paint());
    // Who scrolls up reads; at the end the log follows again.
    this.pre.addEventListener('scroll', () => {
      if (this.isOwn) this.isOwn = false;
      else this.follow.checked = this.pre.scrollTop + this.pre.clientHeight >= this.pre.scrollHeight - 4;
    });
    this.follow.addEventListener('change', () => this.draw());
    this.pre.hidden = true;
    const leave = (isLeft) => {
      this.isLeft = isLeft;
      if (document.hidden || isLeft) this.abort.abort();
      else if (this.onSeen) this.onSeen();
    };
    this.listeners = [[document, 'visibilitychange', () => leave(this.isLeft)], [window, 'pagehide', () => leave(true)],
      [window, 'pageshow', () => leave(false)]];
    for (const [target, type, f] of this.listeners) target.addEventListener(type, f);
  }

  add(piece) {
    this.text += piece;
    if (this.text.length > 2 * KEPT) this.cut();
    this.draw();
  }

  cut() {
    const from = this.text.indexOf('\n', this.text.length - KEPT) + 1 || this.text.length - KEPT;
    this.left += from;
    this.text = this.text.slice(from);
  }

  paint() {
    if (this.text.length > KEPT) this.cut();
    this.pre.hidden = this.text === '';
    setText(this.pre, this.text);
    setText(this.note, this.text === '' ? this.why || 'Nothing was printed yet.'
      : this.left > 0 ? `The last ${Math.round(this.text.length / 1000)} kB; mgpu-stat --logs ${this.job} prints all of it.` : '');
    this.note.hidden = this.note.textContent === '';
    if (!this.follow.checked) return;
    this.isOwn = this.pre.scrollTop + this.pre.clientHeight < this.pre.scrollHeight - 1;
    this.pre.scrollTop = this.pre.scrollHeight;
  }

  // Until the log has ended: a daemon that stops ends it, too, so the job is asked
  // whether it goes on. While nobody sees the page, and when it is left, no
  // connection is held: a browser has six for all pages of an origin. The next
  // one begins with the log's beginning.
  async run(isLive) {
    const path = `${this.api.jobPath(this.job, 'logs')}${isLive ? '?follow=1' : ''}`;
    while (!this.ended) {
      await this.untilSeen();
      if (this.ended) return;
      this.abort = new AbortController();
      let isFirst = true;
      try {
        await this.api.follow(path, (piece) => {
          if (isFirst) Object.assign(this, {text: '', left: 0});
          isFirst = false;
          this.add(piece);
        }, this.abort.signal);
        if (!isLive || await this.isOver()) return;
      } catch (error) {
        if (this.ended || this.abort.signal.aborted) continue;
        this.why = error.message;
        this.draw();
        if (error.status >= 400 && error.status < 500) return;
      }
      await new Promise((resolve) => { setTimeout(resolve, RETRY_MS); });
    }
  }

  async isOver() {
    return isFinal((await this.api.get(this.api.jobPath(this.job), this.abort.signal)).job.state);
  }

  untilSeen() {
    return new Promise((resolve) => {
      this.onSeen = () => {
        if (!this.ended && (document.hidden || this.isLeft)) return;
        this.onSeen = null;
        resolve();
      };
      this.onSeen();
    });
  }

  end() {
    this.ended = true;
    for (const [target, type, f] of this.listeners) target.removeEventListener(type, f);
    this.abort.abort();
    if (this.onSeen) this.onSeen();
    this.draw.cancel();
  }
}
