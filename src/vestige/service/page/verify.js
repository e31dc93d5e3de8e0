// Verification on demand: what was found, in the service's own sentences.
import { post } from "./api.js";
import { announce, make } from "./format.js";

export function startVerify(fail) {
  const button = document.getElementById("verify");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const { ok, findings = [] } = await post("v1/verify");
      const told = ok ? "Nothing was found that should be gone." : `${findings.length} findings.`;
      const list = findings.map((each) => make("li", typeof each === "string" ? each : JSON.stringify(each)));
      document.getElementById("findings").replaceChildren(make("p", told, { "data-ok": ok }), make("ul", "", {}, ...list));
      announce(`Verify: ${told}`);
    } catch (problem) {
      fail(problem);
    }
    button.disabled = false;
  });
}
