"use strict";
// What `arena serve` adds to its pages: the event that is running, and games of a person against a bot.
const LIVE_EVERY = 1500;
const GAME_EVERY = 400;
const SIGNS = [0, 1, -1];

async function ask(path, body) {
  const options = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(path, options).catch(() => {
    throw new Error("The server doesn't answer. Start arena serve again, and this page goes on.");
  });
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error);
  return data;
}

// --- The event that is running ---

function Live({ live }) {
  if (!live || !live.event) return h("p", { class: "note" }, "No event is running.");
  return [
    h("h2", null, "Running: ", h("a", { href: `/event/${encodeURIComponent(live.event)}` }, live.event)),
    h("p", null, `${live.games} of ${live.planned} games, ${live.workers} workers${live.paused ? ", paused" : ""}`),
    h("table", null, h("tr", null, ["player", "Elo", "games"].map((name) => h("th", null, name))),
      live.standings.map((row) => h("tr", null, row.map((cell, index) => h("td", { class: index ? "number" : "long" }, cell))))),
    h("div", { class: "wall" }, live.boards.map(({ id, sgf }) => h(Small, { key: id, game: readGame(id, sgf) }))),
  ];
}

async function followEvent(place) {
  const report = document.querySelector("#report");
  const own = decodeURIComponent(location.pathname.replace(/^\/event\//, ""));
  let known = null;
  let event = null;
  for (;;) {
    try {
      const live = await ask("/live.json");
      render(h(Live, { live }), place);
      if (report && event === own && (live.event !== event || live.games !== known)) {
        const page = new DOMParser().parseFromString(await (await fetch(location.pathname)).text(), "text/html");
        document.querySelector("#report").replaceWith(page.querySelector("#report"));
        showGames(page);
      }
      event = live.event;
      known = live.games;
    } catch (error) {
      render(h("p", { class: "note" }, error.message), place);
    }
    await new Promise((wake) => setTimeout(wake, LIVE_EVERY));
  }
}

// --- A game against a bot ---

function NewGame() {
  const [trouble, setTrouble] = useState("");
  const begin = async (event) => {
    event.preventDefault();
    const wish = Object.fromEntries([...new FormData(event.target)].filter(([, value]) => value));
    for (const name of ["size", "handicap"]) if (wish[name]) wish[name] = Number(wish[name]);
    setTrouble("Starting the bot ...");
    try {
      location.href = `/play/${(await ask("/play/new", wish)).game}`;
    } catch (error) {
      setTrouble(error.message);
    }
  };
  const choice = (name, values) => h("label", null, `${name} `, h("select", { name }, values.map((value) => h("option", { value }, value))));
  return h("form", { class: "new", onSubmit: begin },
    h("label", null, "bot ", h("select", { name: "bot", dangerouslySetInnerHTML: { __html: document.querySelector("#bots").innerHTML } })),
    choice("color", ["black", "white"]), choice("size", [9, 13, 19, 7, 5]), choice("rules", ["chinese", "japanese", "cgos", "tromp-taylor"]),
    h("label", null, "handicap ", h("input", { name: "handicap", type: "number", min: 2, max: 9 })),
    h("label", null, "clock ", h("input", { name: "time", placeholder: "main=600,byoyomi=30" })),
    h("button", null, "Play"), h("p", { class: "note", role: "status" }, trouble));
}

const CLOCK = (left) =>
  left && `${Math.floor(left.seconds / 60)}:${String(Math.floor(left.seconds % 60)).padStart(2, "0")}${left.stones ? ` (${left.stones})` : ""}`;

function Table({ number }) {
  const [now, setNow] = useState(null);
  const [trouble, setTrouble] = useState("");
  const [lost, setLost] = useState("");
  const width = useWidth();
  useEffect(() => {
    let over = false;
    const look = async () => {
      try {
        setNow(await ask(`/play/${number}/state`));
        setLost("");
      } catch (error) {
        setLost(error.message);
      }
      if (!over) setTimeout(look, GAME_EVERY);
    };
    look();
    return () => (over = true);
  }, []);
  if (!now) return h("p", { role: "status" }, lost || "The game is being opened ...");
  const act = async (what, point) => {
    setTrouble("");
    try {
      setNow(await ask(`/play/${number}/do`, point === undefined ? { do: what } : { do: what, point }));
    } catch (error) {
      setTrouble(error.message);
    }
  };
  const size = now.size;
  const rows = (of) => Array.from({ length: size }, (_, y) => Array.from({ length: size }, (_, x) => of(y * size + x)));
  const legal = new Set(now.legal);
  const dead = new Set(now.dead);
  const hints = now.advice ? now.advice.moves : [];
  const mark = (point) => {
    const hint = hints.findIndex((one) => one.point === point);
    return hint >= 0 ? { type: "label", label: "ABC"[hint] } : point === now.last ? { type: "circle" } : null;
  };
  const click = (_, [x, y]) => {
    const point = y * size + x;
    if (now.phase === "count") act("toggle", point);
    else if (legal.has(point)) act("play", point);
    else if (now.phase === "play") setTrouble(now.legal.length ? "That move is not legal." : "It is the bot's turn.");
  };
  const button = (label, what, off) => h("button", { type: "button", disabled: off, onClick: () => act(what) }, label);
  const mine = now.phase === "play" && now.people.includes(now.toPlay);
  const side = (index) => `${"●○"[index]} ${now.names[index]} ${CLOCK(now.clocks[index]) || ""} `;
  const lead = (margin) => `${margin >= 0 ? "Black" : "White"} leads by ${Math.abs(margin).toFixed(1)}`;
  const says =
    now.phase === "over" ? now.result + (now.reason ? ` (${now.reason})` : "")
    : now.phase === "count" ? `Both passed. Click groups that are dead, then accept. ${now.count === null ? "" : lead(now.count)}`
    : now.thinking ? "The bot is thinking ..." : mine ? `Your turn: move ${now.moves + 1}.` : "";
  return h("div", { class: "viewer" },
    h("div", { class: "names" }, side(0), h("span", null, side(1)), h("span", { class: "note" }, `${now.rules}; taken ● ${now.prisoners[0]} ○ ${now.prisoners[1]}`)),
    h("div", { class: mine ? "board mine" : "board" }, h(BoundedGoban, {
      maxWidth: width, maxHeight: 480, showCoordinates: true,
      signMap: rows((point) => SIGNS[now.points[point]]),
      markerMap: rows(mark),
      dimmedVertices: now.dead.map((point) => [point % size, Math.floor(point / size)]),
      paintMap: now.estimate ? rows((point) => now.estimate.owners[point] / 100) : undefined,
      onVertexClick: click,
    })),
    h("p", { class: "fact", role: "status" }, h("b", null, says), (lost || trouble) && h("span", { class: "wrong" }, ` ${lost || trouble}`)),
    h("div", { class: "controls" },
      now.phase === "play" && [button("Pass", "pass", !mine), button("Undo", "undo", !now.moves), button("Hint", "hint", !mine || now.working), button("Score", "score", now.working), button("Resign", "resign")],
      now.phase === "count" && [button("Accept the count", "accept", now.count === null), button("Play on", "continue")],
      now.phase === "over" && h("a", { href: "/play" }, "Another game")),
    now.advice && h("ul", null, now.advice.fault || hints.map((one, index) =>
      h("li", null, `${"ABC"[index]} ${one.name}: ${SHARE(one.winRate)} for you, ${one.visits} visits, ${one.line.join(" ")}`))),
    now.estimate && h("p", null, `${lead(now.estimate.margin)} by playouts.`),
    h("p", { class: "note" }, `${now.id}${now.unrated ? `, unrated: ${now.unrated}` : ""}. Resume it in a terminal with: arena play --resume ${number}`),
    now.trouble && h("p", { class: "wrong" }, now.trouble));
}

const livePlace = document.querySelector("#live");
if (livePlace) followEvent(livePlace);
const playPlace = document.querySelector("#play");
if (playPlace) {
  const named = /^\/play\/(\d+)$/.exec(location.pathname);
  render(named ? h(Table, { number: Number(named[1]) }) : h(NewGame), playPlace);
}
