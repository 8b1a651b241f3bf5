// Passkeys as JSON: `passkeys.create(options)` and `passkeys.get(options)` take the options of WebAuthn Level 3 as
// JSON (base64url) and give the credential as JSON, as section 5.1 of that specification writes both. What an
// authenticator refuses is thrown as a `PasskeyError` whose message a person can act on. Nothing is sent from here.
"use strict";

(function () {
  class PasskeyError extends Error {
    constructor(code, message) {
      super(message);
      this.name = "PasskeyError";
      this.code = code;
    }
  }

  const WORDS = {
    unsupported: "This browser knows no passkeys here. Use a current browser, over https or on localhost.",
    cancelled: "No passkey was given: it was cancelled, no passkey of this workspace is on this device, or it took " +
      "too long. Nothing was done; try again.",
    timed_out: "The authenticator did not answer in time. Nothing was done; try again.",
    already: "This device already holds a passkey of yours for this workspace. Use another device or security key.",
    unverified: "This authenticator cannot check who you are (PIN, fingerprint or face). Use one that can.",
    wrong_site: "This page is not at the address that the passkeys of this workspace belong to.",
    gone: "The authenticator could not be reached. Connect it and try again.",
    failed: "The browser could not use a passkey. Nothing was done; try again.",
  };

  const CODES = {
    NotAllowedError: "cancelled",
    AbortError: "cancelled",
    TimeoutError: "timed_out",
    InvalidStateError: "already",
    ConstraintError: "unverified",
    NotSupportedError: "unverified",
    SecurityError: "wrong_site",
    NotReadableError: "gone",
    NetworkError: "gone",
    UnknownError: "gone",
  };

  function inWords(error) {
    const code = CODES[error && error.name] || "failed";
    return new PasskeyError(code, WORDS[code]);
  }

  function toBytes(text) {
    const plain = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
    return Uint8Array.from(plain, (char) => char.charCodeAt(0));
  }

  function toText(buffer) {
    let plain = "";
    for (const byte of new Uint8Array(buffer)) {
      plain += String.fromCharCode(byte);
    }
    return btoa(plain).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  }

  function described(list) {
    return (list || []).map((one) => ({ ...one, id: toBytes(one.id) }));
  }

  function creation(options) {
    const read = {
      ...options,
      challenge: toBytes(options.challenge),
      user: { ...options.user, id: toBytes(options.user.id) },
      excludeCredentials: described(options.excludeCredentials),
    };
    return read;
  }

  function request(options) {
    const read = { ...options, challenge: toBytes(options.challenge) };
    if (options.allowCredentials) {
      read.allowCredentials = described(options.allowCredentials);
    }
    return read;
  }

  function written(credential, response) {
    return {
      id: credential.id,
      rawId: toText(credential.rawId),
      type: credential.type,
      authenticatorAttachment: credential.authenticatorAttachment || undefined,
      clientExtensionResults: credential.getClientExtensionResults(),
      response: response,
    };
  }

  function supported() {
    return Boolean(window.isSecureContext && window.PublicKeyCredential && navigator.credentials);
  }

  function needSupport() {
    if (!supported()) {
      throw new PasskeyError("unsupported", WORDS.unsupported);
    }
  }

  async function create(options) {
    needSupport();
    let credential;
    try {
      credential = await navigator.credentials.create({ publicKey: creation(options.publicKey || options) });
    } catch (error) {
      throw inWords(error);
    }
    if (!credential) {
      throw new PasskeyError("cancelled", WORDS.cancelled);
    }
    const answer = credential.response;
    return written(credential, {
      clientDataJSON: toText(answer.clientDataJSON),
      attestationObject: toText(answer.attestationObject),
      transports: answer.getTransports ? answer.getTransports() : [],
    });
  }

  async function get(options) {
    needSupport();
    let credential;
    try {
      credential = await navigator.credentials.get({ publicKey: request(options.publicKey || options) });
    } catch (error) {
      throw inWords(error);
    }
    if (!credential) {
      throw new PasskeyError("cancelled", WORDS.cancelled);
    }
    const answer = credential.response;
    return written(credential, {
      clientDataJSON: toText(answer.clientDataJSON),
      authenticatorData: toText(answer.authenticatorData),
      signature: toText(answer.signature),
      userHandle: answer.userHandle ? toText(answer.userHandle) : undefined,
    });
  }

  window.passkeys = { create, get, supported, PasskeyError };
})();
