// Lets a reader choose an epoch, sort and filter its values, and save them. The page is whole without it.
(() => {
  const NS = document.querySelector("svg")?.namespaceURI;  // a page names no address, not even this one
  const LIMIT = 200;
  const unpack = async (text) => {
    const octets = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const stream = new Blob([octets]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };
  const make = (name, more, ...children) => {
    const found = Object.assign(document.createElement(name), more);
    found.append(...children);
    return found;
  };
  const quoted = (cell) => {
    const number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(cell);
    const text = /^[=+\-@\t\r]/.test(cell) && !number ? "'" + cell : String(cell);
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  const start = async (place) => {
    const about = await unpack(place.querySelector(".packed").textContent);
    const { epochs, values, columns, cells } = about;
    const at = (column, epoch, value) => cells[column][epoch][value] ?? NaN;
    const factor = about.percent ? 100 : 1;
    const number = (raw, unit) =>
      Number.isNaN(raw) ? "" : (raw * unit * factor).toFixed(Math.max(0, Math.round(-Math.log10(unit * factor))));
    const select = make("select", {}, ...epochs.map((epoch, i) => make("option", { value: i, textContent: epoch.name })));
    const filter = make("input", { type: "search", placeholder: "part of a label" });
    const save = make("button", { type: "button", textContent: "Save as CSV" });
    const said = make("p", { className: "quiet" });
    said.setAttribute("role", "status");
    const head = make("tr"), body = make("tbody");
    const table = make("table", {}, make("thead", {}, head), body);
    const scroll = make("div", { className: "scroll", tabIndex: 0, role: "group", ariaLabel: "Any epoch" }, table);
    place.append(
      make("p", { className: "controls" }, make("label", {}, "Epoch ", select), make("label", {}, "Filter ", filter), save),
      said, scroll);
    let order = 2, falling = true, rows = [];
    const names = ["value", "label", ...columns];
    const unit = () => epochs[select.value].unit;
    const collect = () => {
      const epoch = Number(select.value), wanted = filter.value.trim().toLowerCase();
      rows = values.map(([value, label], i) => [value, label, ...columns.map((_, c) => at(c, epoch, i))]);
      rows = rows.filter((row) => !wanted || row[1].toLowerCase().includes(wanted) || String(row[0]) === wanted);
      const rank = (row) => (Number.isNaN(row[order]) ? -Infinity : row[order]);
      const sign = falling ? -1 : 1;
      rows.sort((a, b) => order === 1 ? sign * a[1].localeCompare(b[1]) : sign * (rank(a) - rank(b)) || a[0] - b[0]);
    };
    const bar = (row, low, high) => {
      const svg = document.createElementNS(NS, "svg");
      svg.setAttribute("viewBox", "0 0 200 14");
      svg.setAttribute("class", "bar");
      svg.setAttribute("aria-hidden", "true");
      const x = (raw) => (200 * (raw - low)) / (high - low || 1);
      const path = (kind, d) => {
        const line = document.createElementNS(NS, "path");
        line.setAttribute("class", kind);
        line.setAttribute("d", d);
        svg.append(line);
      };
      const [, , estimate, half] = row, shown = columns.indexOf("consistent"), truth = columns.indexOf("truth");
      if (shown >= 0 && !Number.isNaN(row[2 + shown])) path("consistent", `M${x(0)} 2H${x(row[2 + shown])}V12H${x(0)}z`);
      if (!Number.isNaN(estimate)) {
        path("raw", `M${x(estimate - half)} 7H${x(estimate + half)}M${x(estimate)} 4v6`);
      }
      if (truth >= 0 && !Number.isNaN(row[2 + truth])) path("truth", `M${x(row[2 + truth])} 1v12`);
      return svg;
    };
    // Made once: a button that is replaced while it is used takes the keyboard's place on the page with it.
    const heads = names.map((name, i) => {
      const button = make("button", { type: "button", textContent: name });
      button.addEventListener("click", () => { falling = order === i ? !falling : i > 1; order = i; draw(); });
      return make("th", { scope: "col", className: i < 2 ? "t" : "" }, button);
    });
    head.append(...heads, make("th", { scope: "col", className: "t", textContent: "drawn to one scale" }));
    const draw = () => {
      collect();
      const epoch = epochs[select.value];
      const ends = rows.filter((row) => !Number.isNaN(row[2])).flatMap((row) => [row[2] - row[3], row[2] + row[3]]);
      const low = ends.reduce((a, b) => Math.min(a, b), 0), high = ends.reduce((a, b) => Math.max(a, b), 0);
      for (const [i, cell] of heads.entries()) {
        if (order === i) cell.setAttribute("aria-sort", falling ? "descending" : "ascending");
        else cell.removeAttribute("aria-sort");
      }
      body.replaceChildren(...rows.slice(0, LIMIT).map((row) => make("tr", {}, ...row.map((cell, i) =>
        make("td", { className: i < 2 ? "t" : "" },
          i < 2 ? make("bdi", { textContent: cell }) : number(cell, epoch.unit) + (about.percent && !Number.isNaN(cell) ? " %" : ""))),
        make("td", { className: "t" }, bar(row, low, high)))));
      said.textContent = `${epoch.name}: ${epoch.note} ` + (rows.length > LIMIT
        ? `The first ${LIMIT} of ${rows.length.toLocaleString("en")} values are listed; the CSV has all of them.`
        : `${rows.length.toLocaleString("en")} of ${values.length.toLocaleString("en")} values.`);
    };
    save.addEventListener("click", () => {
      const epoch = epochs[select.value];
      const title = about.percent ? (name, i) => (i < 2 ? name : name + ", %") : (name) => name;
      const lines = [["epoch", "start", ...names.map(title)], ...rows.map((row) =>
        [epoch.epoch, epoch.start, row[0], row[1], ...row.slice(2).map((raw) => number(raw, epoch.unit))])];
      const text = lines.map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
      const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: `epoch-${epoch.epoch}.csv` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    });
    select.value = String(about.chosen);
    select.addEventListener("change", draw);
    filter.addEventListener("input", draw);
    draw();
    place.hidden = false;
  };
  if (typeof DecompressionStream === "undefined") return;
  for (const place of document.querySelectorAll(".explorer")) start(place);
})();
