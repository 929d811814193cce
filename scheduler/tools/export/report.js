// report.js - values under the pointer, all values as a table, and sorting.
//
// A report is complete without it: the charts, the first, last, lowest and
// highest value of each line, and the tables are in the page. It loads nothing.
(() => {
    'use strict';

    const LINES = 12; // in a tip: more would hide the chart
    const ROWS = 2000; // in a table of all values
    const SVG = 'http://www.w3.org/2000/svg';
    const data = JSON.parse(document.getElementById('mgpu-data').textContent);

    const word = v => v === null ? '-' : String(Number(v.toPrecision(6)));

    const make = (name, className, content) => {
        const e = document.createElement(name);
        if (className)
            e.className = className;
        if (content !== undefined)
            e.textContent = content;
        return e;
    };

    const draw = (name, attributes) => {
        const e = document.createElementNS(SVG, name);
        for (const [key, value] of Object.entries(attributes))
            e.setAttribute(key, value);
        return e;
    };

    // The index of the value next to x, of ascending ones.
    const nearest = (values, x) => {
        let low = 0, high = values.length - 1;
        while (high - low > 1) {
            const middle = (low + high) >> 1;
            if (values[middle] <= x)
                low = middle;
            else
                high = middle;
        }
        return Math.abs(values[high] - x) < Math.abs(values[low] - x) ? high
                                                                       : low;
    };

    // ---- values under the pointer, or at the cursor keys --------------------
    const watch = (figure, chart) => {
        const svg = figure.querySelector('svg');
        const numbers = key => svg.dataset[key].split(' ').map(Number);
        const [left, top, width, height] = numbers('plot');
        const [x0, x1] = numbers('x'), [y0, y1] = numbers('y');
        const log = svg.dataset.log === '1';
        const atX = v => left + width * (v - x0) / (x1 - x0);
        const atY = v =>
            top + height * (1 - ((log ? Math.log10(v) : v) - y0) / (y1 - y0));
        const marks = draw('g', {class: 'hover'});
        const tip = make('div', 'tip');
        let shownX = null;
        svg.append(marks);
        tip.hidden = true;
        figure.append(tip);

        const hide = () => {
            marks.replaceChildren();
            tip.hidden = true;
            shownX = null;
        };

        // The points of all lines next to x, of lines that reach so far.
        const points = x => {
            const found = [];
            for (const line of chart.series) {
                if (line.x.length === 0)
                    continue;
                const i = nearest(line.x, x);
                if (Math.abs(atX(line.x[i]) - atX(x)) <= 8 &&
                    line.y[i] !== null)
                    found.push({line, x: line.x[i], y: line.y[i]});
            }
            return found;
        };

        const show = (x, y) => {
            const found = points(x);
            if (found.length === 0)
                return hide();
            shownX = x;
            marks.replaceChildren(draw('line', {
                x1: atX(x), x2: atX(x), y1: top, y2: top + height}));
            tip.replaceChildren(make('div', 'dim', `${chart.x} ${word(x)}`));
            // Of many lines, those next to the pointer.
            const near = y === null ? found.slice(0, LINES) : [...found].sort(
                (a, b) => Math.abs(atY(a.y) - y) - Math.abs(atY(b.y) - y))
                .slice(0, LINES);
            near.sort((a, b) => b.y - a.y);
            for (const p of near) {
                const row = make('div');
                const key = draw('svg', {width: 20, height: 8});
                key.append(draw('line', {
                    class: p.line.class, x1: 0, x2: 20, y1: 4, y2: 4}));
                row.append(key, `${p.line.name}: ${word(p.y)}` +
                    (p.x === x ? '' : ` (at ${word(p.x)})`));
                tip.append(row);
                marks.append(draw('circle', {
                    class: p.line.class.split(' ')[1], cx: atX(p.x),
                    cy: atY(p.y), r: 4}));
            }
            if (near.length < found.length)
                tip.append(make('div', 'dim',
                                `and ${found.length - near.length} more`));
            tip.hidden = false;
            // Wider than the figure where that scrolls.
            const drawn = svg.getBoundingClientRect().width;
            const scale = drawn / svg.viewBox.baseVal.width;
            const room = drawn - tip.offsetWidth;
            const at = atX(x) * scale + 16;
            tip.style.left = `${Math.max(0, at < room
                ? at : Math.min(room, at - 40 - tip.offsetWidth))}px`;
            tip.style.top = `${top * scale}px`;
        };

        const allX = () => [...new Set(chart.series.flatMap(s => s.x))]
            .sort((a, b) => a - b);

        svg.addEventListener('pointermove', event => {
            const at = new DOMPoint(event.clientX, event.clientY)
                .matrixTransform(svg.getScreenCTM().inverse());
            const x = x0 + (at.x - left) / width * (x1 - x0);
            let best = null;
            for (const line of chart.series) {
                const v = line.x.length ? line.x[nearest(line.x, x)] : null;
                if (v !== null &&
                    (best === null || Math.abs(v - x) < Math.abs(best - x)))
                    best = v;
            }
            if (best === null || at.x < left || at.x > left + width)
                hide();
            else
                show(best, at.y);
        });
        svg.addEventListener('pointerleave', hide);
        figure.addEventListener('keydown', event => {
            const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
            if (event.target !== figure || !step)
                return;
            const xs = allX();
            const i = shownX === null ? (step > 0 ? 0 : xs.length - 1)
                                      : nearest(xs, shownX) + step;
            if (i >= 0 && i < xs.length)
                show(xs[i], null);
            event.preventDefault();
        });
        figure.addEventListener('blur', hide);
    };

    // ---- all values of a chart as a table -----------------------------------
    const table = (figure, chart) => {
        const details = figure.querySelector('details');
        const fill = () => {
            const xs = [...new Set(chart.series.flatMap(s => s.x))]
                .sort((a, b) => a - b).slice(0, ROWS);
            const t = make('table'), head = make('tr'), box = make('div', 'all');
            const at = chart.series.map(
                s => new Map(s.x.map((x, i) => [x, s.y[i]])));
            for (const name of [chart.x, ...chart.series.map(s => s.name)])
                head.append(make('th', '', name));
            t.append(head);
            for (const x of xs) {
                const row = make('tr');
                row.append(make('td', '', word(x)));
                for (const values of at)
                    row.append(make('td', '',
                                    word(values.has(x) ? values.get(x) : null)));
                t.append(row);
            }
            box.append(t);
            details.append(box);
        };
        details.addEventListener('toggle', fill, {once: true});
    };

    // ---- sorting ------------------------------------------------------------
    // Unknown values come last in either order.
    const compare = (a, b, sign) => {
        const x = a.dataset.v, y = b.dataset.v;
        if (x === '' || y === '')
            return (x === '') - (y === '');
        const n = Number(x), m = Number(y);
        return sign * (isNaN(n) || isNaN(m) ? x.localeCompare(y) : n - m);
    };

    const sortable = t => {
        const head = t.rows[0];
        [...head.cells].forEach((th, column) => {
            const button = make('button', '', th.textContent);
            th.replaceChildren(button);
            button.addEventListener('click', () => {
                const down = th.getAttribute('aria-sort') === 'ascending';
                for (const other of head.cells)
                    other.removeAttribute('aria-sort');
                th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
                const rows = [...t.rows].slice(1);
                rows.sort((a, b) => compare(a.cells[column], b.cells[column],
                                            down ? -1 : 1));
                rows[0]?.parentNode.append(...rows);
            });
        });
    };

    document.querySelectorAll('figure').forEach((figure, i) => {
        watch(figure, data.charts[i]);
        table(figure, data.charts[i]);
    });
    document.querySelectorAll('table.sort').forEach(sortable);
})();
