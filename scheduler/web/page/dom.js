// dom.js - builds elements. Text is always text: nothing here reads HTML.

// el('a', {class: 'x', href: '#/queue', on: {click: f}}, 'text', child, ...)
// An attribute that is null or false is left out; true is an empty one. `on`
// has listeners, `style` properties. Children may be elements, text, numbers,
// lists of these, or null.
export function el(tag, attrs, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attrs || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === 'on')
      for (const [type, f] of Object.entries(value)) node.addEventListener(type, f);
    else if (key === 'style')
      for (const [name, v] of Object.entries(value)) node.style.setProperty(name, v);
    else node.setAttribute(key, value === true ? '' : String(value));
  }
  add(node, children);
  return node;
}

// Appends what el() takes as children.
export function add(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

// Replaces the children.
export function fill(node, ...children) {
  node.replaceChildren();
  return add(node, ...children);
}

const shownOf = new WeakMap(); // element: {key, late} of refresh()

// Replaces the children by make()'s if `data`, of which they are made, differs
// from the last time. While the focus is in the element that waits until it has
// left, and tables stay where they were scrolled to: who reads keeps his place.
export function refresh(node, data, make) {
  const key = JSON.stringify(data);
  let shown = shownOf.get(node);
  if (!shown) {
    shownOf.set(node, shown = {key: null, late: null});
    node.addEventListener('focusout', (e) => {
      if (!node.contains(e.relatedTarget)) setTimeout(() => shown.late && shown.late());
    });
  }
  shown.late = null;
  if (shown.key === key) return;
  if (node.contains(document.activeElement)) {
    shown.late = () => refresh(node, data, make);
    return;
  }
  shown.key = key;
  const places = [...node.querySelectorAll('.scroll')].map((s) => [s.scrollLeft, s.scrollTop]);
  fill(node, make());
  node.querySelectorAll('.scroll').forEach((s, i) => { if (places[i]) s.scrollTo(...places[i]); });
}

// Sets the text, and touches the page only if it differs.
export function setText(node, text) {
  const t = text === null || text === undefined ? '' : String(text);
  if (node.textContent !== t) node.textContent = t;
}

// Calls f at most once a frame, however often the returned function is called.
// The returned function has `cancel`.
export function perFrame(f) {
  let id = 0;
  const ask = () => {
    if (!id)
      id = requestAnimationFrame(() => {
        id = 0;
        f();
      });
  };
  ask.cancel = () => {
    cancelAnimationFrame(id);
    id = 0;
  };
  return ask;
}

// A table of text. columns: [{title, right, of: row => text or node}].
export function table(columns, rows, attrs) {
  const cell = (c, tag, content) => el(tag, {class: c.right ? 'right' : null, scope: tag === 'th' ? 'col' : null}, content);
  return el('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': (attrs && attrs['aria-label']) || 'Table'},
    el('table', attrs,
      el('thead', null, el('tr', null, columns.map((c) => cell(c, 'th', c.title)))),
      el('tbody', null, rows.map((r) => el('tr', null, columns.map((c) => cell(c, 'td', c.of(r))))))));
}

// A line that says what went wrong: "message (CODE)".
export function errorLine(error) {
  return el('p', {class: 'notice bad', role: 'alert'},
    error.message || String(error), error.code ? ` (${error.code})` : '', error.hint ? el('br') : null, error.hint || null);
}

// Opens a modal dialog: ask({title, body, actions: [{text, kind, run}]}). An
// action's `run` may be async: the dialog closes when it has succeeded, and
// shows what it threw. `kind` is 'main', 'danger' or undefined. Without `run` an
// action only closes. Escape closes, too. The focus goes back to where it was.
// Returns a promise of the text of the action that closed it, or null.
export function ask({title, body, actions}) {
  return new Promise((resolve) => {
    const problem = el('div');
    let answer = null;
    const buttons = actions.map((a) => el('button', {class: a.kind || null, type: 'button', on: {click: () => press(a)}}, a.text));
    const box = el('dialog', {'aria-labelledby': 'dialog-title'},
      el('h2', {id: 'dialog-title'}, title), el('div', {class: 'dialog-body'}, body), problem,
      el('div', {class: 'dialog-buttons'}, buttons));
    let isBusy = false; // a held Enter comes again and again
    async function press(a) {
      if (isBusy) return;
      isBusy = true;
      buttons.forEach((b) => { b.disabled = true; });
      try {
        if (a.run) await a.run();
        answer = a.text;
        box.close();
      } catch (error) {
        isBusy = false;
        fill(problem, errorLine(error));
        buttons.forEach((b) => { b.disabled = false; });
      }
    }
    box.addEventListener('close', () => {
      box.remove();
      resolve(answer);
    });
    // Enter in an input is the main action.
    box.addEventListener('keydown', (e) => {
      const main = actions.find((a) => a.kind);
      if (e.key === 'Enter' && e.target.tagName === 'INPUT' && main) {
        e.preventDefault();
        press(main);
      }
    });
    document.body.append(box);
    box.showModal();
  });
}
