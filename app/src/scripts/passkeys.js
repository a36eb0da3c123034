// Passkeys: buttons that create or use one. Each is in a form or section with data-passkey, hidden until the browser is
// known to support passkeys; without scripts the other sign-in methods remain.
(() => {
  const parts = document.querySelectorAll("[data-passkey]");
  if (parts.length === 0 || !window.PublicKeyCredential || !navigator.credentials) return;
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

  const post = async (path, body) => {
    const answer = await fetch(`/api/v1${path}`, {
      method: "POST",
      headers: body ? { "content-type": "application/json" } : {},
      body: body && JSON.stringify(body),
    });
    const reply = answer.status === 204 ? {} : await answer.json();
    if (!answer.ok) throw Object.assign(new Error(reply.detail), { code: reply.code });
    return reply;
  };
  const listed = (list) => list?.map((credential) => ({ ...credential, id: bytes(credential.id) }));
  const use = async (how = {}) => {
    const { public_key: options, state } = await post("/session/passkey/options");
    const key = await navigator.credentials.get({
      publicKey: { ...options, challenge: bytes(options.challenge), allowCredentials: listed(options.allowCredentials) },
      ...how,
    });
    const { response } = key;
    return {
      state,
      credential: {
        id: key.id,
        rawId: text(key.rawId),
        type: key.type,
        response: {
          authenticatorData: text(response.authenticatorData),
          clientDataJSON: text(response.clientDataJSON),
          signature: text(response.signature),
          userHandle: response.userHandle && text(response.userHandle),
        },
      },
    };
  };
  const make = async (name) => {
    const { public_key: options, state } = await post("/me/passkeys/options");
    const key = await navigator.credentials.create({
      publicKey: {
        ...options,
        challenge: bytes(options.challenge),
        user: { ...options.user, id: bytes(options.user.id) },
        excludeCredentials: listed(options.excludeCredentials),
      },
    });
    const { response } = key;
    return post("/me/passkeys", {
      name,
      state,
      credential: {
        id: key.id,
        rawId: text(key.rawId),
        type: key.type,
        response: {
          attestationObject: text(response.attestationObject),
          clientDataJSON: text(response.clientDataJSON),
          transports: response.getTransports?.(),
        },
      },
    });
  };

  const signIn = async (part, how) => {
    await post("/session", { passkey: await use(how) });
    location.assign(part.dataset.back || "/");
  };
  // The browser offers passkeys in the email field until a button starts a request.
  let offered = null;
  const offer = async (part, status) => {
    if (!(await PublicKeyCredential.isConditionalMediationAvailable?.())) return;
    offered = new AbortController();
    try {
      await signIn(part, { mediation: "conditional", signal: offered.signal });
    } catch (error) {
      if (error.code) status.textContent = error.message;
    }
  };

  const actions = {
    "sign-in": (part) => signIn(part),
    async "step-up"(part) {
      await post("/me/step-up", { passkey: await use() });
      const form = part.closest("form");
      form.requestSubmit(form.querySelector("[data-continue]"));
    },
    async register(part) {
      const made = await make(part.querySelector("input").value.trim() || "Passkey");
      if (made.recovery_codes.length === 0) {
        location.assign("/account?done=passkey");
        return;
      }
      const codes = document.getElementById("new-recovery-codes");
      codes.querySelector("pre").textContent = made.recovery_codes.join("\n");
      codes.hidden = false;
      part.hidden = true;
      codes.focus();
    },
  };
  const refused = (error) => {
    if (error.name === "NotAllowedError" || error.name === "AbortError")
      return treelineText("script-passkey-unused");
    if (error.name === "InvalidStateError") return treelineText("script-passkey-exists");
    return error.message;
  };
  for (const part of parts) {
    const button = part.querySelector("button[data-start]");
    const status = part.querySelector("[role=status]");
    part.hidden = false;
    if (part.dataset.passkey === "sign-in" && document.querySelector('input[autocomplete~="webauthn"]')) offer(part, status);
    button.addEventListener("click", async () => {
      offered?.abort();
      button.disabled = true;
      status.textContent = "";
      try {
        await actions[part.dataset.passkey](part);
      } catch (error) {
        if (error.code === "step_up_required") location.assign("/step-up?back=/account");
        else status.textContent = refused(error);
      } finally {
        button.disabled = false;
      }
    });
  }
})();
