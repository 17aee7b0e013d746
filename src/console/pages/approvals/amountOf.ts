/** The amount of money, or else the first number, in the sentence that a rule's template made of the arguments. */
export interface Amount {
  readonly value: number
  /** As the sentence has it, such as `1,290.00 EUR`. */
  readonly text: string
}

/**
 * The values that an agent wrote are in quotation marks, and what the template could not show is in brackets, so that neither can look like an
 * amount. The end of a long sentence may be cut off.
 */
const FOREIGN = /“[^”]*(?:”|$)|\[[^\]]*(?:\]|$)/gu

const MONEY = /(?<![\p{L}\p{N}.,])-?\d[\d,]*(?:\.\d+)? [A-Z]{3}(?![\p{L}\p{N}])/u
const NUMBER = /(?<![\p{L}\p{N}.,-])-?\d[\d,]*(?:\.\d+)?(?![\p{L}\p{N}])/u

/** The amount of a rule's summary; undefined if it has none. */
export const amountOf = (summary: string): Amount | undefined => {
  const own = summary.replace(FOREIGN, "…")
  const text = (MONEY.exec(own) ?? NUMBER.exec(own))?.[0]
  if (text === undefined) return undefined
  const value = Number(text.replace(/[, A-Z]/gu, ""))
  return Number.isNaN(value) ? undefined : { value, text }
}
