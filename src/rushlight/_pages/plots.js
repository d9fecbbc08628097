// Plots on canvases: lines with axes that can be zoomed, and maps of numbers by colour.
const Plots = (() => {
  const { el, colour, significant } = RL;
  const all = [];
  const font = () => `11.5px ${getComputedStyle(document.body).fontFamily}`;
  RL.onTheme(() => all.forEach((plot) => plot.draw()));

  function prepare(canvas, height) {
    const k = Math.min(2, devicePixelRatio || 1), w = canvas.parentElement.clientWidth;
    canvas.style.height = height + "px";
    canvas.width = Math.max(1, Math.round(w * k));
    canvas.height = Math.max(1, Math.round(height * k));
    const pen = canvas.getContext("2d");
    pen.setTransform(k, 0, 0, k, 0, 0);
    pen.font = font();
    return [pen, w, height];
  }
  // Round numbers between two ends; of a logarithmic axis, powers of ten.
  function ticks(low, high, about, log, base) {
    if (base && high > 0) {
      const unit = base ** Math.floor(Math.log(high) / Math.log(base));
      return ticks(low / unit, high / unit, about, false).map((v) => v * unit);
    }
    if (!(high > low)) return [low];
    if (log) {
      const from = Math.ceil(Math.log10(low) - 1e-9), to = Math.floor(Math.log10(high) + 1e-9);
      const every = Math.max(1, Math.ceil((to - from + 1) / about));
      const found = [];
      for (let p = from; p <= to; p += every) found.push(10 ** p);
      if (found.length > 1) return found;
    }
    const raw = (high - low) / about, size = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * size).find((s) => s >= raw * 0.999);
    const found = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) found.push(Math.abs(v) < step * 1e-6 ? 0 : v);
    return found;
  }

  // Ticks that are whole numbers: steps.
  function whole(low, high, about) {
    const found = ticks(low, high, about).filter(Number.isInteger);
    return found.length || high - low > about ? found : ticks(Math.ceil(low), Math.floor(high), about);
  }

  // series: {name, colour, x, y, low, high}; options: height, format, log, x (title), zero,
  // robust: a few far larger values do not press the others to the foot
  function lines(box, series, options) {
    const canvas = el("canvas", { role: "img", tabindex: "0" });
    const holder = el("div.plot", {}, canvas);
    const legend = el("ul.legend", { "aria-label": "Lines" });
    box.replaceChildren(holder, legend);
    const height = options.height || 220, write = options.format || significant;
    const state = { series, zoom: null, hidden: new Set(), log: !!options.log, smooth: 0, at: null, drag: null };
    const pad = { left: 62, right: 14, top: 10, bottom: 34 };
    let scale = null;

    const smoothed = (ys) => {
      if (!state.smooth) return ys;
      const keep = state.smooth;
      let mean = 0, weight = 0;
      return ys.map((y) => {
        if (!Number.isFinite(y)) return y;
        mean = keep * mean + (1 - keep) * y; weight = keep * weight + (1 - keep);
        return mean / weight;
      });
    };
    function bounds(shown) {
      let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
      for (const s of shown) for (const x of s.x) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); }
      if (state.zoom) [x0, x1] = state.zoom;
      for (const s of shown) s.x.forEach((x, i) => {
        const y = s.y[i];
        if (x < x0 || x > x1 || !Number.isFinite(y) || (state.log && y <= 0)) return;
        y0 = Math.min(y0, y); y1 = Math.max(y1, y);
      });
      if (options.robust && !state.zoom) {
        const sorted = shown.flatMap((s) => s.y.filter(Number.isFinite)).sort((a, b) => a - b);
        const usual = sorted[Math.floor(0.95 * (sorted.length - 1))];
        if (sorted.length >= 10 && y1 > 4 * usual) y1 = 2 * usual;
      }
      if (!(x1 > x0)) { x0 -= 0.5; x1 += 0.5; }
      if (y0 === Infinity) { y0 = state.log ? 0.1 : 0; y1 = 1; }
      if (options.zero && !state.log) y0 = Math.min(0, y0);
      if (state.log) { const m = Math.max(0.05, 0.06 * Math.log10(y1 / y0)); y0 /= 10 ** m; y1 *= 10 ** m; }
      else { const m = y1 > y0 ? 0.06 * (y1 - y0) : Math.abs(y1) * 0.1 || 0.5; if (!(options.zero && y0 === 0)) y0 -= m; y1 += m; }
      return [x0, x1, y0, y1];
    }
    function draw() {
      const [pen, w, h] = prepare(canvas, height);
      const shown = state.series.filter((s) => !state.hidden.has(s.name));
      const [x0, x1, y0, y1] = bounds(shown);
      if (!shown.some((s) => s.x.length)) {
        scale = { X: () => 0, Y: () => 0, x0, x1, w, h };
        pen.fillStyle = colour("ink-3"); pen.textAlign = "center"; pen.textBaseline = "middle";
        pen.fillText("nothing recorded", w / 2, h / 2);
        canvas.setAttribute("aria-label", `${options.label}. Nothing recorded.`);
        return;
      }
      const marks = ticks(y0, y1, Math.max(2, Math.floor(h / 48)), state.log, options.base);
      pad.left = Math.ceil(Math.max(34, ...marks.map((v) => pen.measureText(write(v)).width)) + 14);
      const X = (x) => pad.left + ((x - x0) / (x1 - x0)) * (w - pad.left - pad.right);
      const level = state.log ? (y) => (Math.log(y) - Math.log(y0)) / (Math.log(y1) - Math.log(y0)) : (y) => (y - y0) / (y1 - y0);
      const Y = (y) => h - pad.bottom - level(y) * (h - pad.bottom - pad.top);
      scale = { X, Y, x0, x1, w, h };
      pen.lineWidth = 1;
      pen.textAlign = "right"; pen.textBaseline = "middle";
      for (const v of marks) {
        pen.strokeStyle = colour("grid");
        pen.beginPath(); pen.moveTo(pad.left, Math.round(Y(v)) + 0.5); pen.lineTo(w - pad.right, Math.round(Y(v)) + 0.5); pen.stroke();
        pen.fillStyle = colour("ink-3"); pen.fillText(write(v), pad.left - 8, Y(v));
      }
      pen.textBaseline = "top"; pen.textAlign = "center";
      for (const v of whole(x0, x1, Math.max(2, Math.floor(w / 90)))) {
        pen.strokeStyle = colour("line-2");
        pen.beginPath(); pen.moveTo(Math.round(X(v)) + 0.5, h - pad.bottom); pen.lineTo(Math.round(X(v)) + 0.5, h - pad.bottom + 4); pen.stroke();
        pen.fillText(v.toLocaleString("en"), X(v), h - pad.bottom + 7);
      }
      pen.strokeStyle = colour("line-2");
      pen.beginPath(); pen.moveTo(pad.left, h - pad.bottom + 0.5); pen.lineTo(w - pad.right, h - pad.bottom + 0.5); pen.stroke();
      pen.textAlign = "right"; pen.textBaseline = "bottom";
      pen.fillText(options.x || "step", w - pad.right, h - 1);
      pen.save();
      pen.beginPath(); pen.rect(pad.left, 0, w - pad.left - pad.right, h - pad.bottom + 1); pen.clip();
      for (const s of shown) {
        const ink = colour(s.colour);
        const path = (ys) => {
          pen.beginPath();
          let on = false;
          s.x.forEach((x, i) => {
            const y = ys[i];
            if (!Number.isFinite(y) || (state.log && y <= 0)) { on = false; return; }
            if (on) pen.lineTo(X(x), Y(y)); else pen.moveTo(X(x), Y(y));
            on = true;
          });
        };
        pen.lineJoin = "round";
        if (s.low) {
          pen.beginPath();
          s.x.forEach((x, i) => pen.lineTo(X(x), Y(Math.max(s.high[i], state.log ? y0 : -Infinity))));
          for (let i = s.x.length - 1; i >= 0; i--) pen.lineTo(X(s.x[i]), Y(Math.max(s.low[i], state.log ? y0 : -Infinity)));
          pen.globalAlpha = 0.15; pen.fillStyle = ink; pen.fill(); pen.globalAlpha = 1;
        }
        if (state.smooth) { pen.globalAlpha = 0.3; pen.strokeStyle = ink; pen.lineWidth = 1; path(s.y); pen.stroke(); pen.globalAlpha = 1; }
        pen.strokeStyle = ink; pen.lineWidth = 1.8;
        path(smoothed(s.y)); pen.stroke();
        if (s.x.length === 1) { pen.fillStyle = ink; pen.beginPath(); pen.arc(X(s.x[0]), Y(s.y[0]), 3, 0, 7); pen.fill(); }
        // What does not fit is marked at the top, what is not finite at the foot.
        s.x.forEach((x, i) => { if (Number.isFinite(s.y[i]) && s.y[i] > y1) { pen.fillStyle = ink; pen.fillRect(X(x) - 1.5, 0, 3, 7); } });
        pen.fillStyle = colour("bad");
        s.x.forEach((x, i) => { if (!Number.isFinite(s.y[i])) pen.fillRect(X(x) - 1, h - pad.bottom - 6, 2, 6); });
      }
      if (state.drag) {
        pen.fillStyle = colour("accent"); pen.globalAlpha = 0.15;
        pen.fillRect(Math.min(...state.drag), pad.top, Math.abs(state.drag[1] - state.drag[0]), h - pad.top - pad.bottom);
        pen.globalAlpha = 1;
      } else if (state.at !== null) {
        pen.strokeStyle = colour("ink-3"); pen.lineWidth = 1; pen.setLineDash([3, 3]);
        pen.beginPath(); pen.moveTo(X(state.at), pad.top); pen.lineTo(X(state.at), h - pad.bottom); pen.stroke();
        pen.setLineDash([]);
      }
      pen.restore();
      canvas.setAttribute("aria-label", `${options.label}. ` + shown.map((s) =>
        `${s.name}: ${s.y.length} point${s.y.length === 1 ? "" : "s"}, from ${write(s.y[0] ?? NaN)} to ${write(s.y[s.y.length - 1] ?? NaN)}`).join("; "));
    }
    function nearest(s, x) {
      let low = 0, high = s.x.length - 1;
      while (low < high) { const mid = (low + high) >> 1; if (s.x[mid] < x) low = mid + 1; else high = mid; }
      return low > 0 && x - s.x[low - 1] < s.x[low] - x ? low - 1 : low;
    }
    function tell(clientX, clientY) {
      const shown = state.series.filter((s) => !state.hidden.has(s.name) && s.x.length);
      if (!shown.length) return;
      state.at = shown[0].x[nearest(shown[0], state.at)];
      const rows = shown.map((s) => {
        const i = nearest(s, state.at);
        return el("tr", {}, el("td", {}, el("span.key", { style: `background:var(--${s.colour})` }), s.name), el("td", {}, write(s.y[i])));
      });
      RL.showTip(clientX, clientY, [el("b", {}, `${options.x || "step"} ${state.at.toLocaleString("en")}`), el("table", {}, ...rows)]);
      draw();
    }
    const toX = (px) => scale.x0 + ((px - pad.left) / (scale.w - pad.left - pad.right)) * (scale.x1 - scale.x0);
    canvas.addEventListener("pointerdown", (e) => { if (e.pointerType !== "touch") { canvas.setPointerCapture(e.pointerId); state.drag = [e.offsetX, e.offsetX]; } });
    canvas.addEventListener("pointermove", (e) => {
      if (state.drag) { state.drag[1] = e.offsetX; draw(); return; }
      state.at = toX(e.offsetX); tell(e.clientX, e.clientY);
    });
    canvas.addEventListener("pointerup", () => {
      if (!state.drag) return;
      const [a, b] = state.drag.sort((p, q) => p - q);
      const range = [toX(a), toX(b)];
      state.drag = null;
      if (b - a > 6) state.zoom = range;
      draw();
    });
    canvas.addEventListener("pointerleave", () => { state.at = null; RL.hideTip(); draw(); });
    canvas.addEventListener("dblclick", () => { state.zoom = null; draw(); });
    canvas.addEventListener("keydown", (e) => {
      const first = state.series.find((s) => !state.hidden.has(s.name) && s.x.length);
      if (!first) return;
      const span = scale.x1 - scale.x0, mid = state.at ?? (scale.x0 + scale.x1) / 2;
      if (e.key === "ArrowLeft" || e.key === "ArrowRight") {
        const i = state.at === null ? first.x.length - 1 : nearest(first, state.at) + (e.key === "ArrowRight" ? 1 : -1);
        state.at = first.x[Math.min(first.x.length - 1, Math.max(0, i))];
        const box = canvas.getBoundingClientRect();
        tell(box.left + scale.X(state.at), box.top + box.height / 2);
        RL.announce(`${options.x || "step"} ${state.at}: ` + state.series.filter((s) => !state.hidden.has(s.name)).map((s) => `${s.name} ${write(s.y[nearest(s, state.at)])}`).join(", "));
      } else if (e.key === "+" || e.key === "=") state.zoom = [mid - span / 4, mid + span / 4];
      else if (e.key === "-") state.zoom = [mid - span, mid + span];
      else if (e.key === "0" || e.key === "Escape") state.zoom = null;
      else return;
      e.preventDefault();
      draw();
    });
    canvas.addEventListener("blur", () => { state.at = null; RL.hideTip(); draw(); });
    function legends() {
      legend.replaceChildren(...(state.series.length < 2 ? [] : state.series.map((s) => {
        const button = el("button", { type: "button", "aria-pressed": String(!state.hidden.has(s.name)) },
          el("i", { style: `background:var(--${s.colour})` }), s.name);
        button.addEventListener("click", () => {
          if (!state.hidden.delete(s.name)) state.hidden.add(s.name);
          button.setAttribute("aria-pressed", String(!state.hidden.has(s.name)));
          draw();
        });
        return el("li", {}, button);
      })));
    }
    legends();
    new ResizeObserver(draw).observe(holder);
    const plot = {
      draw, state,
      set(next) { const names = (list) => list.map((s) => s.name).join(); const same = names(next) === names(state.series); state.series = next; if (!same) legends(); draw(); },
      reset() { state.zoom = null; draw(); },
    };
    all.push(plot);
    return plot;
  }

  // From low to high: cold to warm, readable on light and dark.
  function heat(t) {
    const stops = RL.dark()
      ? [[33, 39, 58], [46, 92, 140], [60, 150, 150], [214, 183, 60], [255, 138, 80]]
      : [[232, 240, 251], [130, 178, 226], [64, 150, 140], [222, 170, 40], [196, 72, 20]];
    const at = Math.min(0.9999, Math.max(0, t)) * (stops.length - 1), i = Math.floor(at), f = at - i;
    return `rgb(${stops[i].map((a, c) => Math.round(a + (stops[i + 1][c] - a) * f))})`;
  }
  // rows of names, columns of steps; colour by the logarithm of the value.
  function map(box, options) {
    const canvas = el("canvas", { role: "img" });
    const holder = el("div.plot", {}, canvas);
    const key = el("div.heatkey", { "aria-hidden": "true" });
    box.replaceChildren(holder, key);
    let data = options.data, layout = null;
    function draw() {
      const { names, steps, values } = data();
      const wide = holder.clientWidth;
      const size = Math.min(18, Math.max(10, 420 / Math.max(1, names.length)));
      const [pen, w] = prepare(canvas, Math.max(60, names.length * size + 30));
      const room = Math.min(wide * 0.42, Math.max(60, ...names.map((n) => pen.measureText(n).width)) + 12);
      let low = Infinity, high = -Infinity;
      for (const row of values) for (const v of row) if (typeof v === "number" && v > 0) { low = Math.min(low, v); high = Math.max(high, v); }
      const span = Math.log(high / low) || 1;
      const cell = (w - room - 8) / Math.max(1, steps.length);
      layout = { room, size, cell, names, steps, values };
      pen.textBaseline = "middle";
      names.forEach((name, r) => {
        pen.fillStyle = colour("ink-2"); pen.textAlign = "right";
        if (size >= 10) {
          let shown = name;
          while (shown.length > 4 && pen.measureText(shown).width > room - 12) shown = shown.slice(1);
          pen.fillText(shown === name ? name : "…" + shown.slice(1), room - 8, r * size + size / 2);
        }
        values[r].forEach((v, c) => {
          if (v === null) return;
          pen.fillStyle = typeof v !== "number" ? colour("bad") : v > 0 ? heat(Math.log(v / low) / span) : colour("grid");
          pen.fillRect(room + c * cell, r * size + 0.5, Math.ceil(cell), size - 1);
        });
      });
      pen.fillStyle = colour("ink-3"); pen.textBaseline = "top"; pen.textAlign = "left";
      const foot = names.length * size + 6;
      if (steps.length) {
        pen.fillText(`step ${steps[0].toLocaleString("en")}`, room, foot);
        pen.textAlign = "right";
        if (steps.length > 1) pen.fillText(steps[steps.length - 1].toLocaleString("en"), w - 8, foot);
      }
      key.replaceChildren(el("span", {}, low < Infinity ? significant(low, 2) : ""),
        el("i", { style: `background:linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map(heat).join()})` }), el("span", {}, high > 0 ? significant(high, 2) : ""));
      canvas.setAttribute("aria-label", `${options.label}: ${names.length} parameters at ${steps.length} steps, from ${significant(low, 2)} to ${significant(high, 2)}. The table below has the last values.`);
    }
    canvas.addEventListener("pointermove", (e) => {
      const r = Math.floor(e.offsetY / layout.size), c = Math.floor((e.offsetX - layout.room) / layout.cell);
      const v = layout.values[r]?.[Math.max(0, c)];
      if (v === undefined) { RL.hideTip(); return; }
      RL.showTip(e.clientX, e.clientY, [el("b", {}, layout.names[r]), el("div", {}, `step ${layout.steps[Math.max(0, c)]}: ${v === null ? "none" : significant(Number(v))}`)]);
    });
    canvas.addEventListener("pointerleave", RL.hideTip);
    new ResizeObserver(draw).observe(holder);
    const plot = { draw };
    all.push(plot);
    return plot;
  }
  // Histograms [low, high, counts] over steps, as columns of colour.
  function histograms(box, options) {
    const canvas = el("canvas", { role: "img" });
    const holder = el("div.plot", {}, canvas);
    box.replaceChildren(holder);
    let layout = null;
    function draw() {
      const { steps, values, label } = options.data();
      const [pen, w, h] = prepare(canvas, 240);
      const kept = values.filter(Boolean);
      canvas.setAttribute("aria-label", `${label}: ${kept.length} histograms`);
      if (!kept.length) { pen.fillStyle = colour("ink-3"); pen.textAlign = "center"; pen.fillText("nothing was measured", w / 2, h / 2); layout = null; return; }
      let low = Infinity, high = -Infinity, top = 0;
      for (const [a, b, counts] of kept) { low = Math.min(low, a); high = Math.max(high, b); top = Math.max(top, ...counts.map((c) => c / ((b - a) || 1))); }
      const marks = ticks(low, high, 5);
      const left = Math.max(34, ...marks.map((v) => pen.measureText(significant(v)).width)) + 14, bottom = 26, head = 8;
      const Y = (v) => h - bottom - ((v - low) / (high - low)) * (h - bottom - head);
      const cell = (w - left - 8) / steps.length;
      values.forEach((entry, c) => {
        if (!entry) return;
        const [a, b, counts] = entry, part = (b - a) / counts.length;
        const most = Math.max(...counts);
        counts.forEach((n, i) => {
          if (!n) return;
          pen.fillStyle = heat(Math.sqrt(n / most));
          const y = Y(a + part * (i + 1));
          pen.fillRect(left + c * cell, y, Math.ceil(cell), Math.max(1, Y(a + part * i) - y + 0.5));
        });
      });
      pen.strokeStyle = colour("line-2"); pen.fillStyle = colour("ink-3"); pen.textAlign = "right"; pen.textBaseline = "middle";
      for (const v of marks) pen.fillText(significant(v), left - 8, Y(v));
      pen.beginPath(); pen.moveTo(left - 0.5, head); pen.lineTo(left - 0.5, h - bottom + 0.5); pen.lineTo(w - 8, h - bottom + 0.5); pen.stroke();
      pen.textBaseline = "top"; pen.textAlign = "left";
      pen.fillText(`step ${steps[0]}`, left, h - bottom + 7);
      pen.textAlign = "right";
      if (steps.length > 1) pen.fillText(String(steps[steps.length - 1]), w - 8, h - bottom + 7);
      layout = { left, cell, steps, values };
    }
    canvas.addEventListener("pointermove", (e) => {
      const c = layout && Math.floor((e.offsetX - layout.left) / layout.cell), entry = layout?.values[c];
      if (!entry) { RL.hideTip(); return; }
      RL.showTip(e.clientX, e.clientY, [el("b", {}, `step ${layout.steps[c]}`), el("div", {}, `from ${significant(entry[0])} to ${significant(entry[1])}`)]);
    });
    canvas.addEventListener("pointerleave", RL.hideTip);
    new ResizeObserver(draw).observe(holder);
    const plot = { draw };
    all.push(plot);
    return plot;
  }
  return { lines, map, histograms, heat, ticks };
})();
