// Lets a reader choose an epoch, sort and filter its values. The page is whole without it.
(() => {
  const LIMIT = 200;
  const make = (name, more, ...children) => {
    const found = Object.assign(document.createElement(name), more);
    found.append(...children);
    return found;
  };
  const start = (place) => {
    const { epochs, values, columns, unit, chosen } = JSON.parse(place.querySelector(".epochs").textContent);
    const select = make("select"), sliceOf = (epoch) => epoch.slice ?? "all devices";
    const slices = [...new Set(epochs.map(sliceOf))];
    const slice = make("select", {}, ...slices.map((name) => make("option", { value: name, textContent: name })));
    const list = () => {
      select.replaceChildren(...epochs.flatMap((epoch, i) =>
        sliceOf(epoch) === slice.value ? [make("option", { value: i, textContent: epoch.name })] : []));
      select.selectedIndex = select.length - 1;
    };
    const filter = make("input", { type: "search", placeholder: "part of a label" });
    const said = make("p", { className: "quiet" });
    said.setAttribute("role", "status");
    const head = make("tr"), body = make("tbody");
    const table = make("table", {}, make("thead", {}, head), body);
    place.append(
      make("p", { className: "controls" }, ...(slices.length > 1 ? [make("label", {}, "Slice ", slice)] : []), make("label", {}, "Epoch ", select), make("label", {}, "Filter ", filter)), said,
      make("div", { className: "scroll", tabIndex: 0, role: "group", ariaLabel: "Any epoch" }, table));
    let order = 2, falling = true;
    // Made once: a button that is replaced while it is used takes the keyboard's place on the page with it.
    const heads = ["value", "label", ...columns].map((name, i) => {
      const button = make("button", { type: "button", textContent: name });
      button.addEventListener("click", () => { falling = order === i ? !falling : i > 1; order = i; draw(); });
      return make("th", { scope: "col", className: i < 2 ? "t" : "" }, button);
    });
    head.append(...heads);
    const draw = () => {
      const epoch = epochs[select.value], wanted = filter.value.trim().toLowerCase(), sign = falling ? -1 : 1;
      const rows = values.map((value, i) => [...value, ...epoch.rows[i]])
        .filter((row) => !wanted || row[1].toLowerCase().includes(wanted) || String(row[0]) === wanted);
      const rank = (row) => row[order] ?? -Infinity;
      rows.sort((a, b) => order === 1 ? sign * a[1].localeCompare(b[1]) : sign * (rank(a) - rank(b)) || a[0] - b[0]);
      for (const [i, cell] of heads.entries()) {
        if (order === i) cell.setAttribute("aria-sort", falling ? "descending" : "ascending");
        else cell.removeAttribute("aria-sort");
      }
      body.replaceChildren(...rows.slice(0, LIMIT).map((row) => make("tr", {}, ...row.map((cell, i) =>
        i < 2 ? make("td", { className: "t" }, make("bdi", { textContent: cell }))
          : make("td", { textContent: cell === null ? "" : cell.toFixed(epoch.digits) + unit })))));
      said.textContent = `${epoch.name}: ${epoch.note} ` + (rows.length > LIMIT
        ? `The first ${LIMIT} of ${rows.length.toLocaleString("en")} values are listed.`
        : `${rows.length.toLocaleString("en")} of ${values.length.toLocaleString("en")} values.`);
    };
    list();
    select.value = String(chosen);
    slice.addEventListener("change", () => { list(); draw(); });
    select.addEventListener("change", draw);
    filter.addEventListener("input", draw);
    draw();
    place.hidden = false;
  };
  for (const place of document.querySelectorAll(".explorer")) start(place);
})();
