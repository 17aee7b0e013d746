/**
 * Whether a number is a multiple of a positive one, by their shortest decimal forms: 19.99 is a multiple of 0.01, although the quotient of
 * their binary approximations is not an integer. Both must be finite.
 */
export const isMultipleOf = (value: number, divisor: number): boolean => {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) return value % divisor === 0
  const dividend = toDecimal(value)
  const factor = toDecimal(divisor)
  const exponent = Math.min(dividend.exponent, factor.exponent)
  return scale(dividend, exponent) % scale(factor, exponent) === 0n
}

/** `digits` × 10^`exponent`. */
interface Decimal {
  readonly digits: bigint
  readonly exponent: number
}

const toDecimal = (value: number): Decimal => {
  const [significand = "0", exponent = "0"] = String(value).split("e")
  const [whole = "0", fraction = ""] = significand.split(".")
  return { digits: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length }
}

/** The digits scaled to a lower or equal exponent. The exponents of two numbers differ by less than 650. */
const scale = ({ digits, exponent }: Decimal, to: number): bigint => digits * 10n ** BigInt(exponent - to)
