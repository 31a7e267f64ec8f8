"use strict";
// Steps through the games of a page with a win-rate graph, and shows the last ones as a wall of small boards.
const { h, render, useEffect, useState, BoundedGoban, Goban, Board, parse } = Lib;

const MISTAKE = 0.05; // of win rate, in the eyes of the player itself
const WORST = 6;
const SHARE = (rate) => `${(100 * rate).toFixed(1)}%`;
const LETTERS = "ABCDEFGHJKLMNOPQRST";

function vertexOf(text, size) {
  const x = text.charCodeAt(0) - 97;
  const y = text.charCodeAt(1) - 97;
  return text.length === 2 && x < size && y < size ? [x, y] : null; // anything else is a pass
}

function nameOf(vertex, size) {
  return vertex === null ? "pass" : LETTERS[vertex[0]] + (size - vertex[1]);
}

/** A game of SGF; one that can't be read has no moves, and says so in place of its result. */
function readGame(id, sgf) {
  try {
    return parseGame(id, sgf);
  } catch (error) {
    return { id, size: 9, setup: [], moves: [], sgf, black: "?", white: "?", result: `can't be shown: ${error.message}`, komi: "" };
  }
}

/** A game of SGF: moves of {sign, vertex, rate, lead, comment}, where rate and lead are Black's. */
function parseGame(id, sgf) {
  const moves = [];
  let node = parse(sgf)[0];
  const root = node.data;
  const text = (name) => (root[name] || [""])[0];
  const size = Number(text("SZ")) || 19;
  const setup = [["AB", 1], ["AW", -1]].flatMap(([name, sign]) => (root[name] || []).map((p) => [vertexOf(p, size), sign]));
  for (node = node.children[0]; node; node = node.children[0]) {
    const sign = node.data.B ? 1 : -1;
    const told = (name) => (node.data[name] ? Number(node.data[name][0]) : null);
    moves.push({
      sign,
      vertex: vertexOf((node.data.B || node.data.W)[0], size),
      rate: told("SBKV") === null ? null : told("SBKV") / 100,
      lead: told("V"),
      comment: (node.data.C || [""])[0],
    });
  }
  return { id, size, setup, moves, sgf, black: text("PB"), white: text("PW"), result: text("RE"), komi: text("KM") };
}

/** The board after so many moves. */
function boardAt(game, number) {
  let board = Board.fromDimensions(game.size);
  for (const [vertex, sign] of game.setup) board.set(vertex, sign);
  for (const { sign, vertex } of game.moves.slice(0, number)) if (vertex) board = board.makeMove(sign, vertex);
  return board;
}

/** What moves cost in the eyes of their own players: how much less each reported at its next move. The worst first. */
function mistakesOf(game) {
  const found = [];
  game.moves.forEach(({ sign, rate }, index) => {
    const later = game.moves[index + 2];
    if (rate === null || !later || later.rate === null) return;
    const cost = sign * (rate - later.rate);
    if (cost >= MISTAKE) found.push({ number: index + 1, cost });
  });
  return found.sort((one, other) => other.cost - one.cost).slice(0, WORST);
}

/** Where the page begins: after the worst move of all, in a game where players report rates, else at the last game's end. */
function turningPoint(games) {
  const found = games.flatMap((game) => mistakesOf(game).slice(0, 1).map((move) => ({ id: game.id, at: move.number, cost: move.cost })));
  const [worst] = found.sort((one, other) => other.cost - one.cost);
  return worst || { id: games[0].id, at: games[0].moves.length };
}

function markersAt(game, number) {
  const map = Array.from({ length: game.size }, () => Array(game.size).fill(null));
  const last = number ? game.moves[number - 1].vertex : null;
  if (last) map[last[1]][last[0]] = { type: "circle" };
  return map;
}

function Graph({ game, at, go, mistakes }) {
  const count = game.moves.length;
  if (!game.moves.some((move) => move.rate !== null)) return null;
  const x = (number) => (600 * number) / Math.max(1, count);
  const y = (rate) => 118 - 116 * rate;
  const line = (sign) =>
    game.moves
      .map((move, index) => (move.sign === sign && move.rate !== null ? `${x(index + 1)},${y(move.rate)}` : ""))
      .filter(Boolean)
      .join(" ");
  const click = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    go(Math.round(((event.clientX - box.left) / box.width) * count));
  };
  return h(
    "figure",
    null,
    h(
      "svg",
      { class: "graph", viewBox: "0 0 600 120", preserveAspectRatio: "none", onClick: click, role: "img", "aria-label": "Win rate of Black" },
      h("line", { x1: 0, x2: 600, y1: y(0.5), y2: y(0.5), class: "half" }),
      h("polyline", { points: line(1), class: "of-black" }),
      h("polyline", { points: line(-1), class: "of-white" }),
      mistakes.map(({ number }) => h("circle", { cx: x(number), cy: y(game.moves[number - 1].rate), r: 4, class: "mistake" })),
      h("line", { x1: x(at), x2: x(at), y1: 0, y2: 120, class: "here" }),
    ),
    h("figcaption", { class: "note" }, "Black's win rate as ", h("b", { class: "of-black" }, "Black"), " and ", h("b", { class: "of-white" }, "White"), " reported it."),
  );
}

function useWidth() {
  const room = () => Math.min(960, document.querySelector("#viewer").clientWidth, innerHeight - 60);
  const [width, setWidth] = useState(room());
  useEffect(() => {
    const resize = () => setWidth(room());
    addEventListener("resize", resize);
    return () => removeEventListener("resize", resize);
  }, []);
  return width;
}

function Viewer({ game, at, go }) {
  const width = useWidth();
  const mistakes = mistakesOf(game);
  const move = at ? game.moves[at - 1] : null;
  const ordered = [...mistakes].sort((one, other) => one.number - other.number);
  useEffect(() => {
    const press = (event) => {
      if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "range") return;
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
      const toWorst = (from) => (ordered.find(({ number }) => number > from) || ordered[0] || { number: from }).number;
      if (event.key !== "m" && !(event.key in steps)) return;
      event.preventDefault();
      go((from) => (event.key === "m" ? toWorst(from) : from + steps[event.key])); // several may come before the next drawing
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });
  const board = boardAt(game, at);
  const button = (label, title, place) => h("button", { type: "button", title, "aria-label": title, onClick: () => go(place) }, label);
  return h(
    "div",
    { class: "viewer" },
    h("div", { class: "names" }, `● ${game.black || "Black"}`, h("span", null, `○ ${game.white || "White"}`), h("span", { class: "note" }, game.result)),
    h(BoundedGoban, { maxWidth: width, maxHeight: 960, showCoordinates: true, signMap: board.signMap, markerMap: markersAt(game, at), innerProps: { "aria-label": "board" } }),
    h("div", { class: "controls" },
      button("|◀", "first", 0), button("◀", "back", at - 1), button("▶", "forward", at + 1), button("▶|", "last", game.moves.length),
      h("input", { type: "range", min: 0, max: game.moves.length, value: at, "aria-label": "move", onInput: (event) => go(Number(event.target.value)) })),
    h("div", { class: "fact" },
      h("b", null, `Move ${at} of ${game.moves.length}`),
      move && `: ${move.sign > 0 ? "●" : "○"} ${nameOf(move.vertex, game.size)}`,
      move && move.comment && h("span", { class: "note" }, ` ${move.comment}`)),
    h(Graph, { game, at, go, mistakes }),
    mistakes.length > 0 && h("div", { class: "worst" }, "Worst moves: ",
      mistakes.map(({ number, cost }) => {
        const one = game.moves[number - 1];
        const title = `${one.sign > 0 ? "Black" : "White"} reported ${SHARE(cost)} less at its next move`;
        return h("button", { type: "button", title, onClick: () => go(number) }, `${number} ${one.sign > 0 ? "●" : "○"} ${nameOf(one.vertex, game.size)} −${SHARE(cost)}`);
      })),
  );
}

/** A name whose middle goes where it is long: settings differ at the end. */
const shorten = (name) => (name.length > 13 ? `${name.slice(0, 4)}…${name.slice(-8)}` : name);

function Small({ game, chosen, choose }) {
  const number = game.moves.length;
  return h("button", { type: "button", class: chosen ? "small chosen" : "small", title: `${game.id}: ${game.moves.length} moves`, onClick: choose },
    h(Goban, { vertexSize: 108 / game.size, signMap: boardAt(game, number).signMap, markerMap: markersAt(game, number) }),
    h("span", null, `● ${shorten(game.black)}`), h("span", null, `○ ${shorten(game.white)}`), h("span", { class: "note" }, game.result === "?" ? `move ${number}` : game.result));
}

function Games({ games, note }) {
  const named = /^#(.*)@(\d+)$/.exec(decodeURIComponent(location.hash));
  const [state, setState] = useState(() => (named ? { id: named[1], at: Number(named[2]) } : turningPoint(games)));
  const place = Math.max(0, games.findIndex((one) => one.id === state.id));
  const game = games[place];
  const at = Math.min(state.at, game.moves.length);
  const show = (chosen, number) =>
    setState((before) => {
      const wanted = typeof number === "function" ? number(before.at) : number;
      return { id: games[chosen].id, at: Math.min(Math.max(0, wanted), games[chosen].moves.length) };
    });
  useEffect(() => history.replaceState(null, "", `#${encodeURIComponent(game.id)}@${at}`), [game, at]);
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([game.sgf], { type: "application/x-go-sgf" }));
    link.download = `${game.id.replace(/[^\w.-]/g, "_")}.sgf`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  const line = (one) => `${one.id}: ${one.black} – ${one.white}, ${one.result}, ${one.moves.length} moves`;
  return [
    h("p", { class: "note" }, note),
    h("div", { class: "pick" },
      h("select", { "aria-label": "game", onChange: (event) => show(Number(event.target.value), 0) },
        games.map((one, index) => h("option", { value: index, selected: index === place }, line(one)))),
      h("button", { type: "button", onClick: save }, "SGF")),
    h(Viewer, { game, at, go: (number) => show(place, number) }),
    h("p", { class: "note" }, "← → go a move, PgUp and PgDn ten, Home and End to the ends, m to the next of the worst moves."),
    h("p", null, "The last games:"),
    h("div", { class: "wall" }, games.slice(0, game.size > 13 ? 12 : 24).map((one, index) =>
      h(Small, { game: one, chosen: index === place, choose: () => show(index, one.moves.length) }))),
  ];
}

/** Show the games that a page has. */
function showGames(page) {
  const data = page.querySelector("#games");
  if (!data) return;
  const { games, note } = JSON.parse(data.textContent);
  const place = document.querySelector("#viewer");
  place.querySelectorAll("noscript").forEach((part) => part.remove());
  render(h(Games, { games: games.map(({ id, sgf }) => readGame(id, sgf)), note }), place);
}

showGames(document);
