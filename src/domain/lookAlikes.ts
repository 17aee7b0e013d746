/**
 * Letters of other scripts that look like Latin letters, each before the Latin letter. A selection of the confusables of Unicode Technical
 * Standard 39: the letters that ordinary fonts draw alike.
 */
const PAIRS =
  "аaеeоoрpсcуyхxіiјjѕsԁdһhԛqԝwѵvӏlАAВBЕEЗ3КKМMНHОOРPСCТTУYХXІIЈJЅSԌGԚQԜW" +
  "αaοoνvρpτtυuιiκkϲcϳjΑAΒBΕEΖZΗHΙIΚKΜMΝNΟOΡPΤTΥYΧXϹC" +
  "օoսuհhոnցgզqյjՏSՍUՕO" +
  "ᎪAᏴBᏟCᎠDᎬEᏀGᎻHᏆIᎫJᏦKᏞLᎷMᏢPᏒRᏚSᎢTᏙVᎳWᏃZɑaɡg"

const letters = [...PAIRS]

const latinOf: ReadonlyMap<string, string> = new Map(
  letters.flatMap((letter, index) => (index % 2 === 0 ? [[letter, letters[index + 1] ?? ""] as const] : []))
)

/** The text that a reader sees: look-alike letters and compatibility forms as the letters that they look like. */
export const toSeenText = (text: string): string =>
  [...text.normalize("NFKC")].map((letter) => latinOf.get(letter) ?? letter).join("")

/** Words that identifiers join, such as `payments.refund` or `pay-now@example.com`. */
const JOINED = /[\p{L}\p{M}\p{N}_]+(?:[-.@:/][\p{L}\p{M}\p{N}_]+)*/gu
const WORD = /[\p{L}\p{M}\p{N}]+/gu
const LATIN = /[A-Za-z]/
const ALL_LETTERS = /\p{L}/gu
const NOT_ASCII = /[^\0-\u007f]/u

/** Letters of scripts that have many look-alikes. They never stand in a Latin word. */
const FOREIGN = /[\p{Script=Cyrillic}\p{Script=Armenian}\p{Script=Cherokee}]/u

const isLookAlike = (letter: string): boolean => latinOf.has(letter)

/**
 * The places of letters that pretend to be Latin, as UTF-16 offsets: letters of another script in a word with Latin letters, and whole words of
 * look-alikes in an identifier that is otherwise Latin.
 */
export const findLookAlikes = (text: string): ReadonlySet<number> => {
  const found = new Set<number>()
  if (!NOT_ASCII.test(text)) return found
  for (const { 0: joined, index: start } of text.matchAll(JOINED)) {
    if (!NOT_ASCII.test(joined) || !LATIN.test(joined)) continue
    for (const { 0: word, index } of joined.matchAll(WORD)) {
      const all = [...word.matchAll(ALL_LETTERS)]
      const isMixed = LATIN.test(word)
      const pretends = isMixed
        ? (letter: string) => isLookAlike(letter) || FOREIGN.test(letter)
        : all.every(([letter]) => isLookAlike(letter))
          ? isLookAlike
          : undefined
      if (pretends === undefined) continue
      for (const match of all) if (pretends(match[0])) found.add(start + index + match.index)
    }
  }
  return found
}
