// Shows the findings of one severity, or all.
(() => {
  const buttons = [...document.querySelectorAll("[data-show]")];
  const findings = [...document.querySelectorAll("[data-severity]")];
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const wanted = button.dataset.show;
      for (const each of buttons) each.setAttribute("aria-pressed", String(each === button));
      for (const each of findings) each.hidden = wanted !== "" && each.dataset.severity !== wanted;
      const shown = findings.filter((each) => !each.hidden).length;
      RL.announce(shown + " of " + findings.length + " findings shown");
    });
  }
})();
