"use strict";
// The list of runs, what can be filtered, a run's timeline, and buttons to copy. Text from the report only ever becomes
// text of an element. Rows and tables are described in report/html_runs.py.
(function () {
  const PAGE = 50;
  const data = JSON.parse(document.getElementById("data").textContent);
  const rows = data.rows;
  const byId = (id) => document.getElementById(id);
  const [NAME, FLOW, STATUS, VERDICT, SOURCE, AT, WHY, WAYS, VERSION, TIMELINE] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
  const FINE = new Set(["resume", "upcast", "migrate", "pin"]);
  const NAMELESS = "(no execution named)";
  const OUTCOMES = { go_on: "go on", need_a_person: "need a person", stranded: "stranded" };
  const outcome = (verdict) => FINE.has(verdict) ? "go_on" : verdict === "reject" ? "stranded" : "need_a_person";
  const number = (value) => value.toLocaleString("en");
  const plural = (value, word) => number(value) + " " + word + (value === 1 ? "" : "s");

  // el("p", {class: "x"}, "text", otherElement)
  function el(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "onclick") made.addEventListener("click", value);
      else if (value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return made;
  }
  const nameOf = (row) => row[NAME] || NAMELESS;
  const causeName = (cause) => cause.code + (cause.step ? " (" + cause.step + ")" : "");

  // What is searched, made once.
  const haystacks = [];
  function haystack(index) {
    if (haystacks[index] === undefined) {
      const row = rows[index];
      const codes = row[WHY].map(([cause]) => data.causes[cause].code + " " + data.causes[cause].step);
      const parts = [nameOf(row), data.flows[row[FLOW]], data.statuses[row[STATUS]], data.verdicts[row[VERDICT]],
        data.sources[row[SOURCE]], data.versions[row[VERSION]], ...codes];
      haystacks[index] = parts.join("\n").toLowerCase();
    }
    return haystacks[index];
  }

  // Filters -----------------------------------------------------------------------------------------------------------
  const search = byId("search");
  const selects = { cause: byId("by-cause"), verdict: byId("by-verdict"), flow: byId("by-flow"), status: byId("by-status"), strategy: byId("by-strategy") };
  let found = [];
  let page = 0;

  function fill(select, options) {
    for (const [value, text] of options) select.append(el("option", { value }, text));
    select.closest("label").hidden = options.length < 1;
  }
  const counted = (position) => {
    const counts = new Map();
    for (const row of rows) counts.set(row[position], (counts.get(row[position]) || 0) + 1);
    return [...counts].sort((one, other) => other[1] - one[1]).slice(0, 200);
  };
  const shown = new Map();
  for (const row of rows) for (const [cause] of row[WHY]) shown.set(cause, (shown.get(cause) || 0) + 1);
  fill(selects.cause, data.causes.map((cause, index) => [index, cause]).filter(([index]) => shown.has(index)).slice(0, 200)
    .map(([index, cause]) => [index, causeName(cause) + ", " + cause.flow + ": " + number(shown.get(index))]));
  for (const [name, position, table] of [["verdict", VERDICT, data.verdicts], ["flow", FLOW, data.flows], ["status", STATUS, data.statuses]]) {
    fill(selects[name], counted(position).map(([value, count]) => [value, (table[value] || "unknown") + ": " + number(count)]));
  }
  fill(selects.strategy, data.strategies.flatMap((name) => Object.entries(OUTCOMES).map(([key, text]) => [name + "\n" + key, name + ": " + text])));

  function matches(index, words) {
    const row = rows[index];
    if (selects.cause.value !== "" && !row[WHY].some(([cause]) => cause === Number(selects.cause.value))) return false;
    if (selects.verdict.value !== "" && row[VERDICT] !== Number(selects.verdict.value)) return false;
    if (selects.flow.value !== "" && row[FLOW] !== Number(selects.flow.value)) return false;
    if (selects.status.value !== "" && row[STATUS] !== Number(selects.status.value)) return false;
    if (selects.strategy.value !== "") {
      const [name, wanted] = selects.strategy.value.split("\n");
      const verdict = data.ways[row[WAYS]][name];
      if (verdict === undefined || outcome(verdict) !== wanted) return false;
    }
    return words.every((word) => haystack(index).includes(word));
  }

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = [];
    for (let index = 0; index < rows.length; index += 1) if (matches(index, words)) found.push(index);
    page = 0;
    render();
  }

  function chosen(changes) {
    search.value = "";
    for (const [name, select] of Object.entries(selects)) select.value = changes[name] === undefined ? "" : changes[name];
    filter();
    byId("runs").scrollIntoView();
    byId("search").focus({ preventScroll: true });
  }

  // The list ----------------------------------------------------------------------------------------------------------
  const body = byId("table").tBodies[0];

  function cell(label, ...children) {
    return el("td", { role: "cell", "data-label": label }, ...children);
  }

  function why(row) {
    return row[WHY].map(([cause], position) => el("span", {}, position ? ", " : "", el("code", {}, data.causes[cause].code)));
  }

  function render() {
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    page = Math.min(page, pages - 1);
    byId("found").textContent = found.length === rows.length ? plural(rows.length, "run") : number(found.length) + " of " + plural(rows.length, "run");
    byId("page-now").textContent = "Page " + number(page + 1) + " of " + number(pages);
    byId("before").disabled = page === 0;
    byId("after").disabled = page === pages - 1;
    body.replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map((index) => {
      const row = rows[index];
      const verdict = data.verdicts[row[VERDICT]];
      const version = data.versions[row[VERSION]];
      return el("tr", { role: "row" },
        cell("", el("button", { type: "button", class: "link run", onclick: () => open(index) }, nameOf(row))),
        cell("Flow", (data.flows[row[FLOW]] || "unknown") + (version ? " " + version : "")),
        cell("Status", data.statuses[row[STATUS]]),
        cell("Verdict", el("span", { class: FINE.has(verdict) ? "verdict-word" : "verdict-word bad-word" }, verdict)),
        cell("Why", ...why(row)),
        cell("Last event", row[AT]),
        cell("Where", el("span", { class: "where" }, data.sources[row[SOURCE]])));
    }));
  }

  // A run -------------------------------------------------------------------------------------------------------------
  const dialog = byId("run");
  let opener = null;

  function open(index, from) {
    const row = rows[index];
    const verdict = data.verdicts[row[VERDICT]];
    opener = from || document.activeElement;
    const facts = [data.flows[row[FLOW]] || "unknown flow", data.versions[row[VERSION]], data.statuses[row[STATUS]],
      "verdict " + verdict, row[AT] ? "last event " + row[AT] + " UTC" : "", data.sources[row[SOURCE]]].filter(Boolean);
    const reasons = el("ul", { class: "why" }, ...row[WHY].map(([cause, text]) =>
      el("li", {}, causeLink(cause), ": ", text < 0 ? data.causes[cause].text : data.texts[text])));
    const ways = Object.entries(data.ways[row[WAYS]]);
    dialog.replaceChildren(
      el("div", { class: "head" },
        el("div", {}, el("h2", { id: "run-title" }, "Run ", el("code", {}, nameOf(row))), el("div", { class: "of" }, facts.join(" · "))),
        el("button", { type: "button", onclick: () => dialog.close() }, "Close")),
      el("div", { class: "body" },
        row[WHY].length ? reasons : el("p", {}, "Nothing was found about this run."),
        ways.length ? el("p", { class: "of" }, "Strategies: " + ways.map(([name, what]) => name + " " + what).join(", ")) : null,
        ...timeline(row)));
    dialog.showModal();
    history.replaceState(null, "", "#run=" + encodeURIComponent(nameOf(row)));
    const first = dialog.querySelector("tr.first");
    if (first && first.getBoundingClientRect().bottom > dialog.getBoundingClientRect().bottom) {
      first.scrollIntoView({ block: "center", behavior: "instant" });
    }
  }

  let next = "";
  function causeLink(cause) {
    const code = el("code", {}, data.causes[cause].code);
    if (!byId("cause-" + cause)) return code;
    return el("button", { type: "button", class: "link", onclick: () => { next = "#cause-" + cause; dialog.close(); } }, code);
  }

  dialog.addEventListener("close", () => {
    history.replaceState(null, "", location.pathname + location.search);
    if (next) location.hash = next;
    else if (opener && opener.isConnected) opener.focus();
    next = "";
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

  function timeline(row) {
    if (row[TIMELINE] < 0) {
      return [el("p", { class: "of" }, "The timelines of " + data.each + " runs of each cause are in this page; this run’s is not.")];
    }
    const told = JSON.parse(byId("timeline-" + row[TIMELINE]).textContent);
    let day = "";
    for (const entry of told.rows) {
      if (!entry.time) continue;
      const [date, time] = entry.time.replace("Z", "").split("T");
      entry.clock = date === day ? [time] : [date, time];
      day = date;
    }
    const table = el("table", { class: "timeline", role: "table" },
      el("caption", { class: "hidden" }, "What was recorded beside what today’s code does"),
      el("colgroup", {}, el("col", { class: "no" }), el("col", { class: "then" }), el("col", {})),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...["Event", "Recorded", "Today’s code"].map((name) =>
        el("th", { scope: "col", role: "columnheader" }, name)))),
      el("tbody", { role: "rowgroup" }, ...told.rows.map((entry, index) => line(entry, index === told.first))));
    return [el("h3", {}, "Timeline"), el("p", { class: "of" }, plural(told.events, "event") + "; " + told.how + "."), table];
  }

  const WORDS = {
    same: "the same", declared: "still there", later: "not reached", kept: "finished, and not run again", gone: "nothing of it",
    differs: "something else", stops: "stops here", new: "something new",
  };

  function line(entry, isFirst) {
    if (entry.gap) return el("tr", { class: "gap", role: "row" }, el("td", { colspan: "3", role: "cell" }, plural(entry.gap, "row") + " left out"));
    const codes = entry.codes || [];
    const isBad = isFirst || ["gone", "differs", "stops", "new"].includes(entry.today);
    const recorded = entry.today === "new" ? el("span", { class: "of" }, "nothing") : el("span", {},
      el("span", { class: "kind" }, entry.kind + " "), el("code", {}, entry.name || ""), entry.status ? " " + entry.status : "");
    const words = entry.today ? WORDS[entry.today] : "";
    const today = entry.today === "new" ? el("span", {}, el("span", { class: "kind" }, entry.kind + " "), el("code", {}, entry.name || "")) : null;
    return el("tr", { role: "row", class: (isFirst ? "first " : "") + (isBad ? "bad" : "") },
      el("td", { role: "cell", class: "at" }, entry.at === undefined ? "–" : String(entry.at),
        entry.clock ? el("time", { datetime: entry.time }, entry.clock.join(" ")) : null),
      el("td", { role: "cell", "data-label": "Recorded" }, recorded, payloads(entry.was)),
      el("td", { role: "cell", "data-label": "Today’s code" },
        isFirst ? el("span", { class: "first-word" }, "First divergence") : null,
        today, words || (codes.length ? "" : el("span", { class: "of" }, "not known")), entry.said ? ": " + entry.said : "",
        codes.length ? el("div", {}, ...codes.map((code, position) => el("span", {}, position ? ", " : "", el("code", {}, code)))) : null,
        payloads(entry.now)));
  }

  function payloads(parts) {
    if (!parts || !parts.length) return null;
    return el("details", {}, el("summary", {}, parts.map(([name]) => name).join(", ")),
      ...parts.flatMap(([name, text]) => [el("div", { class: "part" }, name), el("pre", { tabindex: "0" }, text)]));
  }

  // What the page has, made alive ---------------------------------------------------------------------------------------
  const indexes = new Map();
  rows.forEach((row, index) => {
    const name = nameOf(row);
    if (!indexes.has(name)) indexes.set(name, []);
    indexes.get(name).push(index);
  });
  function indexOf(name, where) {
    const all = indexes.get(name) || [];
    return all.find((index) => where.startsWith(data.sources[rows[index][SOURCE]])) ?? all[0];
  }
  for (const span of document.querySelectorAll(".examples .run")) {
    const index = indexOf(span.dataset.run, span.dataset.where);
    if (index !== undefined) {
      const button = el("button", { type: "button", class: "link run" }, span.textContent);
      button.addEventListener("click", () => open(index, button));
      span.replaceWith(button);
    }
  }
  for (const span of document.querySelectorAll(".all-of")) {
    span.replaceWith(el("button", { type: "button", class: "link", onclick: () => chosen({ cause: span.dataset.cause }) }, span.textContent));
  }
  for (const box of document.querySelectorAll("td[data-strategy]")) {
    if (box.textContent === "0") continue;
    const value = box.dataset.strategy + "\n" + box.dataset.outcome;
    box.replaceChildren(el("button", { type: "button", class: "link", "aria-label": box.textContent + " runs " + OUTCOMES[box.dataset.outcome] + " with " + box.dataset.strategy + ": show them",
      onclick: () => chosen({ strategy: value }) }, box.textContent));
  }
  for (const box of document.querySelectorAll(".way")) {
    const code = box.querySelector("code");
    const button = el("button", { type: "button", class: "copy" }, "Copy");
    button.setAttribute("aria-label", "Copy the lines of " + box.querySelector(".name").textContent);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
    });
    box.append(button);
  }

  let waiting = 0;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 80); });
  for (const select of Object.values(selects)) select.addEventListener("change", filter);
  byId("clear").addEventListener("click", () => { chosen({}); });
  byId("before").addEventListener("click", () => { page -= 1; render(); });
  byId("after").addEventListener("click", () => { page += 1; render(); });
  byId("run-list").hidden = rows.length === 0;
  filter();
  function unfold() {
    const target = location.hash.startsWith("#cause-") ? byId(location.hash.slice(1)) : null;
    if (!target) return;
    target.open = true;
    target.scrollIntoView();
    target.querySelector("summary").focus({ preventScroll: true });
  }
  addEventListener("hashchange", unfold);
  unfold();
  const asked = location.hash.startsWith("#run=") ? decodeURIComponent(location.hash.slice(5)) : "";
  if (asked && indexes.has(asked)) open(indexes.get(asked)[0]);
})();
