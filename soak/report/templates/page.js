"use strict";
(function () {
  var one = function (id) { return document.getElementById(id); };
  var turns = Array.prototype.slice.call(document.querySelectorAll("details.turn"));
  var fields = [one("by-class"), one("by-arm"), one("by-text")];
  function matches(turn, kind, arm, text) {
    return (!kind || turn.dataset.class === kind) && (!arm || turn.dataset.arm === arm) &&
      (!text || turn.textContent.toLowerCase().indexOf(text) >= 0);
  }
  function filter() {
    var shown = 0, text = fields[2].value.trim().toLowerCase();
    turns.forEach(function (turn) {
      turn.hidden = !matches(turn, fields[0].value, fields[1].value, text);
      shown += turn.hidden ? 0 : 1;
    });
    one("matching").textContent = shown + " of " + turns.length;
  }
  function openAll(open) {
    turns.forEach(function (turn) { turn.open = open && !turn.hidden; });
  }
  function follow() {
    var turn = turns.find(function (each) { return "#" + each.id === location.hash; });
    if (turn) { turn.open = true; turn.scrollIntoView(); }
  }
  fields.forEach(function (field) { field.addEventListener("input", filter); });
  one("open-all").addEventListener("click", function () { openAll(true); });
  one("close-all").addEventListener("click", function () { openAll(false); });
  window.addEventListener("hashchange", follow);
  document.querySelector(".filter").hidden = false;
  filter();
  follow();
})();
