// SPDX-License-Identifier: MIT OR Apache-2.0
// Replays the recording of the first page: the text is there already, and appears as it did.
(() => {
  const events = JSON.parse(document.getElementById("cast").textContent);
  const screen = document.querySelector(".recording .screen");
  const whole = screen.innerHTML;
  const button = document.createElement("button");
  const bar = document.createElement("progress");
  bar.max = events.length;
  bar.value = events.length;
  button.type = "button";
  let next = events.length;
  let timer = null;
  let said = "";
  function escape(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/^(\$ .*)$/gm, "<b>$1</b>");
  }
  function label() {
    button.textContent = timer ? "Pause" : next < events.length ? "Go on" : "Play";
  }
  function step() {
    const at = events[next][0];
    while (next < events.length && events[next][0] <= at) said += events[next++][1];
    screen.innerHTML = escape(said);
    screen.scrollTop = screen.scrollHeight;
    bar.value = next;
    if (next < events.length) {
      timer = setTimeout(step, 1000 * (events[next][0] - at));
    } else {
      timer = null;
      screen.innerHTML = whole;
      screen.scrollTop = screen.scrollHeight;
    }
    label();
  }
  button.addEventListener("click", () => {
    if (timer) {
      clearTimeout(timer);
      timer = null;
      label();
      return;
    }
    if (next >= events.length) {
      next = 0;
      said = "";
    }
    step();
  });
  label();
  const controls = document.createElement("div");
  controls.className = "controls";
  controls.append(button, bar);
  screen.after(controls);
})();
