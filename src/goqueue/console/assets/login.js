// Who uses the page. A key is kept for this tab alone; a password only in memory; neither ever in an address.

import { call, logIn, state } from "./api.js";
import { $, setText } from "./dom.js";
import { ask } from "./ui.js";

let asking = null;

/** Shows who is logged in, if the node wants to know. */
export async function startSession() {
  try {
    const who = await call("GET /whoami");
    state.needsLogin = false;
    $("user").hidden = !who.authentication;
    setText($("user"), `${who.principal.replace(/^User:/, "")} · log out`);
  } catch (error) {
    if (error.status !== 401) {
      $("user").hidden = true;
    }
  }
}

export function askLogin(code, after) {
  state.needsLogin = true;
  if (asking) {
    return;
  }
  asking = ask({
    title: "Log in",
    about: code === "credentials-refused" ? "That was refused: it is wrong, has run out, or is nobody's any more." : "This node wants to know who asks.",
    changes: false,
    fields: [
      { name: "token", label: "API key", type: "password", hint: "Kept for this tab until it is closed." },
      { name: "user", label: "Or a user", autocomplete: "username" },
      { name: "password", label: "and its password", type: "password", autocomplete: "current-password", hint: "Kept in memory: a reload asks again." },
    ],
    submitLabel: "Log in",
    submit: async (given) => {
      const basic = btoa(String.fromCharCode(...new TextEncoder().encode(`${given.user}:${given.password}`)));
      state.header = given.token ? `Bearer ${given.token.trim()}` : `Basic ${basic}`;
      await call("GET /whoami");
      logIn(state.header, Boolean(given.token));
      await startSession();
    },
  });
  asking.addEventListener("close", () => {
    asking = null;
    after();
  }, { once: true });
}

$("user").addEventListener("click", () => {
  logIn(null, false);
  location.reload();
});
