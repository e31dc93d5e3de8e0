// Verification on demand: what was found, in the service's own sentences.
import { post } from "./api.js";
import { byId, clock, make, plural } from "./format.js";

export function startVerify(fail) {
  const button = byId("verify");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const { ok, findings = [] } = await post("v1/verify");
      const told = ok ? "Nothing was found that should be gone" : plural(findings.length, "finding");
      const list = findings.length ? [make("ul", "", {}, ...findings.map((each) => make("li", String(each))))] : [];
      byId("findings").replaceChildren(make("p", `${told}, checked at ${clock(Date.now())}.`, { class: "state", "data-met": Boolean(ok), "data-ok": ok }), ...list);
    } catch (problem) {
      fail(problem);
    }
    button.disabled = false;
    button.focus();
  });
}
