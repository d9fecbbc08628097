// The graph as the page holds it: texts by number, views with an index of their boxes.
const G = (() => {
  const { steps, views, texts, boxHeight: H } = RL.data;
  const text = (column, i) => texts[steps[column][i]];
  const users = steps.inputs.map(() => []);
  steps.inputs.forEach((list, i) => list.forEach((j) => users[j].push(i)));

  const sum = (members, column) => {
    let total = 0, any = false;
    for (const i of members) if (typeof steps[column][i] === "number") { total += steps[column][i]; any = true; }
    return any ? total : null;
  };
  const norm = (members) => {
    let total = 0, any = false;
    for (const i of members) if (typeof steps.norm[i] === "number") { total = Math.max(total, steps.norm[i]); any = true; }
    return any ? total : null;
  };

  for (const view of views) {
    const n = view.x.length;
    view.values = {
      bytes: view.members.map((m) => sum(m, "bytes")),
      time: view.members.map((m) => sum(m, "time")),
      norm: view.members.map(norm),
    };
    view.up = Array.from({ length: n }, () => []);
    view.down = Array.from({ length: n }, () => []);
    view.edges.forEach(([a, b], e) => { view.down[a].push([b, e]); view.up[b].push([a, e]); });
    view.byTop = Array.from({ length: n }, (_, i) => i).sort((a, b) => view.y[a] - view.y[b] || view.x[a] - view.x[b]);
    view.tops = view.byTop.map((i) => view.y[i]);
    view.boxOf = new Int32Array(steps.label.length);
    view.members.forEach((m, i) => m.forEach((j) => (view.boxOf[j] = i)));
    // Of each edge: left, top, right, bottom.
    view.bounds = view.routes.map((r) => {
      let [l, t, rr, b] = [Infinity, Infinity, -Infinity, -Infinity];
      for (let i = 0; i < r.length; i += 2) {
        l = Math.min(l, r[i]); rr = Math.max(rr, r[i]);
        t = Math.min(t, r[i + 1]); b = Math.max(b, r[i + 1]);
      }
      return [l, t, rr, b];
    });
  }

  // The first box whose top is at least y.
  function firstBelow(view, y) {
    let low = 0, high = view.tops.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (view.tops[mid] < y) low = mid + 1; else high = mid;
    }
    return low;
  }
  function boxAt(view, x, y) {
    for (let at = firstBelow(view, y - H); at < view.tops.length && view.tops[at] <= y; at++) {
      const i = view.byTop[at];
      if (x >= view.x[i] && x <= view.x[i] + view.w[i] && y <= view.y[i] + H) return i;
    }
    return -1;
  }
  const label = (view, i) => texts[view.label[i]];
  const detail = (view, i) => texts[view.detail[i]];
  const kind = (view, i) => texts[view.kind[i]];
  const haystack = steps.label.map((_, i) =>
    ["label", "name", "module", "line", "source", "shape"].map((c) => text(c, i)).join("\n").toLowerCase());

  return { steps, views, texts, text, users, H, firstBelow, boxAt, label, detail, kind, haystack };
})();
