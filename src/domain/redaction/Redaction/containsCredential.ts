import { findApiKeys } from "../../identity/ApiKeyFormat.ts"
import { decodeBase64Runs, decodeHexRuns, MAX_LAYERS } from "./decodeBase64Runs.ts"
import { isOrdinary } from "./findSecrets.ts"
import { findSecretKinds } from "./findSecretKinds.ts"
import type { KnownValues } from "./KnownValues.ts"
import { joinLines, normalizeText, type TextView } from "./TextView.ts"

/**
 * Whether a text contains a known value, an API key or a secret of a recognizable kind, also encoded or broken by line ends and invisible
 * characters. What only its surroundings or its randomness make a secret does not count, so that no ordinary name does.
 */
export const containsCredential = (text: string, known: KnownValues, layer = 0): boolean =>
  // Nearly every name is ordinary.
  !isOrdinary(text, known) &&
  viewsOf(text).some(
    (view) =>
      known.find(view).length > 0 ||
      findApiKeys(view.text).length > 0 ||
      toEnd(findSecretKinds(view)).length > 0 ||
      (layer < MAX_LAYERS &&
        [...toEnd(decodeBase64Runs(view.text)), ...decodeHexRuns(view.text)].some((run) =>
          containsCredential(run.text, known, layer + 1)
        ))
  )

/** The text, without its escapes and invisible characters, and without its line ends too. */
const viewsOf = (text: string): ReadonlyArray<TextView> => {
  const given: TextView = { text }
  const normalized = normalizeText(text)
  const joined = joinLines(normalized ?? given, true)
  return [given, normalized, joined].filter((view) => view !== undefined)
}

const toEnd = <A>(steps: Generator<void, A>): A => {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}
