"use strict";
// What `arena serve` adds to its pages: games of a person against a bot.
const GAME_EVERY = 400;
const SIGNS = [0, 1, -1];

async function ask(path, body) {
  const options = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(path, options).catch(() => {
    throw new Error("The server doesn't answer. Start arena serve again, and this page goes on.");
  });
  const data = await answer.json();
  if (data.question) return confirm(data.question) ? ask(path, { ...body, sure: true }) : null;
  if (!answer.ok) throw new Error(data.error);
  return data;
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
        setNow(await ask(`/play/${number}/state`, {}));
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
      const next = await ask(`/play/${number}/do`, point === undefined ? { do: what } : { do: what, point });
      if (next) setNow(next);
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

const playPlace = document.querySelector("#play");
if (playPlace) {
  const named = /^\/play\/(\d+)$/.exec(location.pathname);
  render(named ? h(Table, { number: Number(named[1]) }) : h(NewGame), playPlace);
}
