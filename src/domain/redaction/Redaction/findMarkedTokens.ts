import { isPlaceholder } from "./isPlaceholder.ts"
import { isIdentifier, randomness } from "./looksRandom.ts"
import type { TextRange } from "./TextRange.ts"

/**
 * A token whose prefix itself names a secret (`acme_live_…`, `xyz-pat-…`, `foo_sk_…`): services invent such prefixes faster than any list
 * can follow. The prefix has at most four short words.
 */
const marked =
  /(?<![0-9A-Za-z_-])(?:[A-Za-z][0-9A-Za-z]{0,15}[_-]){0,3}(?:live|test|prod|production|sandbox|staging|dev|secret|sec|sk|rk|pat|key|apikey|token|tok|oat|access|refresh|admin|bot|auth|svc|service|st|at|rt|pw|api|sandbox|cli|webhook|uat|sat|signing)[_-]([0-9A-Za-z][0-9A-Za-z_-]{19,255})/gi

/** The marks with a separator. */
export const markedTriggers =
  "live test prod production sandbox staging dev secret sec sk rk pat key apikey token tok oat access refresh admin bot auth svc service st at rt pw api cli webhook uat sat signing"
    .split(" ")
    .flatMap((mark) => [`${mark}_`, `${mark}-`])

/** Words in a prefix of public or identifying values. */
const harmless =
  /(?:^|[_-])(?:pk|pub|public|publishable|client[_-]?id|id|req|request|trace|span|evt|event|session|msg|run|job|batch|file|img|order|user|usr)[_-]/i

/** Minimum length of the random part of a token. */
const MIN_RANDOM = 20

/** Minimum randomness of a token of no known form. */
const MIN_RANDOMNESS = 12

/** Nats of a character of base62. */
const NATS = Math.log(62)

/** Finds tokens that name themselves as secret by a word of their prefix. */
export const findMarkedTokens = (text: string): ReadonlyArray<TextRange> => {
  const found: Array<TextRange> = []
  for (const match of text.matchAll(marked)) {
    const [whole, body = ""] = match
    const prefix = whole.slice(0, -body.length)
    if (harmless.test(prefix) || harmless.test(body.slice(0, 12))) continue
    if (isRandomBody(body) && !isPlaceholder(body) && !isIdentifier(body) && !isIdentifier(whole)) {
      found.push({ start: match.index, end: match.index + whole.length })
    }
  }
  return found
}

/** Whether a body is random: with letters of both cases as a whole, otherwise its last part, since names have several. */
const isRandomBody = (body: string): boolean => {
  const isMixed = /[a-z][0-9_-]*[A-Z]/.test(body) && /[0-9]/.test(body)
  const part = isMixed ? body : body.slice(Math.max(body.lastIndexOf("_"), body.lastIndexOf("-")) + 1)
  return (
    part.length >= MIN_RANDOM &&
    (isMixed || /[0-9].*[0-9].*[0-9]/.test(part)) &&
    /[A-Za-z]/.test(part) &&
    randomness([part], [NATS]) > MIN_RANDOMNESS
  )
}
