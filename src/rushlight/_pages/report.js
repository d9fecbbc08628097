// The report: plots of what was collected; while the program runs, asks it for news.
(() => {
  const { el, bytes, count, seconds, percent, significant } = RL;
  const get = (id) => document.getElementById(id);
  let data = RL.data;
  const numbers = (list) => list.map(Number); // NaN and infinities come as texts
  const COLOURS = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"];
  const last = (name) => { const s = data.scalars[name]; return s ? Number(s.mean[s.mean.length - 1]) : null; };

  function series(names, shown = names) {
    return names.filter((n) => data.scalars[n]).map((n, i) => {
      const s = data.scalars[n];
      return {
        name: shown[i], colour: COLOURS[i % 8], x: s.step, y: numbers(s.mean),
        low: s.least && numbers(s.least), high: s.greatest && numbers(s.greatest),
      };
    });
  }
  const lossNames = () => Object.keys(data.scalars).filter((n) => n === "loss" || n.startsWith("loss at "));
  const rateNames = () => Object.keys(data.scalars).filter((n) => n.startsWith("learning rate"));
  const KNOWN = new Set(["step time", "memory in use", "memory peak"]);
  const others = () => Object.keys(data.scalars).filter((n) => !KNOWN.has(n) && !lossNames().includes(n) && !rateNames().includes(n));

  function median(list) { const s = [...list].sort((a, b) => a - b); return s[s.length >> 1] ?? 0; }
  function stats() {
    const loss = lossNames()[0], values = loss ? numbers(data.scalars[loss].mean) : [];
    const times = data.scalars["step time"] ? numbers(data.scalars["step time"].mean) : [];
    const peak = last("memory peak");
    const cell = (name, value, note) => {
      const [number, ...unit] = value.split(" ");
      return el("div", {}, el("dt", {}, name), el("dd", {}, number, unit.length ? el("small", {}, " " + unit.join(" ")) : null), note ? el("dd.quiet", {}, note) : null);
    };
    const finite = values.filter(Number.isFinite);
    const end = values[values.length - 1];
    const lossCell = cell("Loss", values.length ? significant(end, 4) : "–", finite.length ? `best ${significant(Math.min(...finite), 4)}` : "");
    if (values.length && !Number.isFinite(end)) lossCell.querySelector("dd").classList.add("bad");
    get("stats").replaceChildren(
      cell("Steps", data.steps.toLocaleString("en"), data.running && data.live ? "running" : ""),
      lossCell,
      cell("Step time", times.length ? seconds(median(times)) : "–", "median"),
      cell("Time", seconds(data.seconds)),
      cell("Peak memory", peak === null ? "–" : bytes(peak)),
      cell("Cost of measuring", percent(data.overhead)),
    );
    get("error").hidden = !data.error;
    if (data.error) get("error").replaceChildren(el("span.badge", {}, "stopped"), ` ${data.error}`);
  }

  // ---- plots over steps
  const lossPlot = Plots.lines(get("loss"), series(lossNames()), { height: 300, label: "Loss" });
  get("smooth").addEventListener("change", () => { lossPlot.state.smooth = Number(get("smooth").value); lossPlot.draw(); });
  get("log").addEventListener("click", () => {
    lossPlot.state.log = !lossPlot.state.log;
    get("log").setAttribute("aria-pressed", String(lossPlot.state.log));
    lossPlot.draw();
  });
  const plots = new Map(); // by name: [plot, its series]
  function small(title, note, options, current) {
    if (plots.has(title)) { plots.get(title).set(current()); return; }
    if (!current().some((s) => s.x.length)) return;
    const box = el("div");
    const id = "p" + plots.size;
    get("scalars").append(el("section.card", { "aria-labelledby": id }, el("header", {}, el("h2", { id }, title), el("span.quiet", {}, note)), box));
    plots.set(title, Plots.lines(box, current(), { label: title, ...options }));
  }
  function scalars() {
    small("Learning rate", "", { zero: true, format: (v) => significant(v) }, () => series(rateNames()));
    small("Gradient norm", "of all layers together, where measured", { log: true }, () =>
      data.layers.steps.length ? [{ name: "gradient norm", colour: "c1", x: data.layers.steps, y: numbers(data.layers.total) }] : []);
    small("Step time", "marks at the top: longer", { zero: true, robust: true, format: seconds }, () => series(["step time"]));
    small("Memory", "of tensors", { zero: true, format: bytes, base: 1024 }, () => series(["memory in use", "memory peak"], ["in use", "peak so far"]));
    for (const name of others()) small(name, "", {}, () => series([name]));
  }

  // ---- layers
  const layerData = (key) => () => ({ names: data.layers.names, steps: data.layers.steps, values: data.layers[key] });
  const maps = [];
  let of = "weights";
  const pick = get("parameter");
  function layers() {
    const { names, steps } = data.layers;
    if (!names.length) return;
    if (!maps.length) {
      get("layers").hidden = false;
      maps.push(
        Plots.map(get("norms"), { label: "Gradient norm by layer", data: layerData("norms") }),
        Plots.map(get("ratios"), { label: "Update ratio by layer", data: layerData("ratios") }),
        Plots.histograms(get("histogram"), { data: () => ({ steps: data.layers.steps, values: data.layers[of === "weights" ? "weights" : "grads"][pick.selectedIndex] || [], label: `${of} of ${pick.value}` }) }),
      );
      pick.addEventListener("change", () => maps[2].draw());
      for (const what of ["weights", "grads"]) {
        get("of-" + what).addEventListener("click", () => {
          of = what;
          get("of-weights").setAttribute("aria-pressed", String(what === "weights"));
          get("of-grads").setAttribute("aria-pressed", String(what === "grads"));
          maps[2].draw();
        });
      }
    }
    if (pick.options.length !== names.length) pick.replaceChildren(...names.map((n) => el("option", { value: n }, n)));
    maps.forEach((m) => m.draw());
    const at = steps.length - 1;
    const show = (v) => (v === null || v === undefined ? "–" : significant(Number(v)));
    get("last").replaceChildren(RL.table([
      { title: "Parameter", get: (i) => el("span.loc", {}, names[i]) },
      { title: "Gradient norm", num: true, get: (i) => show(data.layers.norms[i][at]) },
      { title: "Update ratio", num: true, get: (i) => show(data.layers.ratios[i][at]) },
    ], names.map((_, i) => i), "Layers at the last sample"));
  }

  // ---- activations and lines
  function activations() {
    const rows = data.activations;
    const box = get("activations");
    box.hidden = !rows.length;
    get("act-step").textContent = `at step ${data.activations_step.toLocaleString("en")}`;
    box.querySelector(".scroll").replaceChildren(RL.table([
      { title: "Module", get: ([name]) => el("span.loc", {}, name) },
      { title: "Kind", get: ([, a]) => a.type },
      { title: "Shape", get: ([, a]) => a.shape.join("×") },
      { title: "Mean", num: true, get: ([, a]) => significant(Number(a.mean)) },
      { title: "Deviation", num: true, get: ([, a]) => significant(Number(a.std)) },
      { title: "Largest", num: true, get: ([, a]) => significant(Number(a.max)) },
      { title: "Zeros", num: true, get: ([, a]) => percent(Number(a.zeros)) },
    ], rows, "Activations by module"));
  }
  function lines() {
    const { rows, steps, total } = data.lines;
    const box = get("lines");
    box.hidden = !rows.length;
    if (!rows.length) return;
    get("line-text").replaceChildren(`time of ops in a step, mean of ${steps} measured; `,
      el("span.swatch", { style: "background:var(--c1)" }), "forward ", el("span.swatch", { style: "background:var(--c2);margin-left:8px" }), "backward");
    const most = rows[0].forward + rows[0].backward;
    box.querySelector(".scroll").replaceChildren(RL.table([
      { title: "Line", get: (r) => { const cell = el("span", {}, el("span.loc", { title: r.file }, r.line)); if (r.source) cell.append(el("span.src", { title: r.source }, r.source)); return cell; } },
      { title: "Forward", num: true, get: (r) => seconds(r.forward) },
      { title: "Backward", num: true, get: (r) => seconds(r.backward) },
      { title: "Share", num: true, get: (r) => percent((r.forward + r.backward) / total) },
      { title: "Ops", num: true, get: (r) => count(r.calls) },
      { title: "", get: (r) => el("span.share", { "aria-hidden": "true" }, el("i", { style: `width:${(100 * r.forward) / most}%` }), el("i", { style: `width:${(100 * r.backward) / most}%` })) },
    ], rows, "Slowest lines"));
  }

  function all() { stats(); lossPlot.set(series(lossNames(), lossNames())); scalars(); layers(); activations(); lines(); }
  all();
  if (data.live) {
    const facts = document.querySelector(".facts");
    const state = el("span.running", {}, "running");
    facts.append(" · ", state);
    const again = async () => {
      try {
        const answer = await fetch("data", { cache: "no-store" });
        data = { ...(await answer.json()), live: true };
        all();
      } catch { data.running = false; }
      if (data.running) setTimeout(again, 1000);
      else { state.textContent = "ended"; state.className = "quiet"; stats(); }
    };
    setTimeout(again, 1000);
  }
})();
