// The colours of the page: those of the system, or light, or dark. Runs before anything is painted.
"use strict";
(() => {
  const KEY = "dpsql-theme";
  const NEXT = {system: "light", light: "dark", dark: "system"};
  let now = "system";
  try {
    now = localStorage.getItem(KEY) in NEXT ? localStorage.getItem(KEY) : "system";
  } catch { /* a browser that keeps nothing */ }
  const show = () => {
    document.documentElement.dataset.theme = now;
    const button = document.getElementById("theme");
    if (button) {
      button.textContent = `Colours: ${now}`;
    }
  };
  show();
  document.addEventListener("DOMContentLoaded", () => {
    show();
    document.getElementById("theme").addEventListener("click", () => {
      now = NEXT[now];
      try {
        localStorage.setItem(KEY, now);
      } catch { /* as above */ }
      show();
    });
  });
})();
