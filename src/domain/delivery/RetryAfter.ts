const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ")

/** `Sun, 06 Nov 1994 08:49:37 GMT` */
const IMF_FIXDATE = /^[A-Z][a-z]{2}, (\d{2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT$/
/** `Sunday, 06-Nov-94 08:49:37 GMT`: obsolete, but a recipient must read it. */
const RFC_850 = /^[A-Z][a-z]{5,8}, (\d{2})-([A-Z][a-z]{2})-(\d{2}) (\d{2}):(\d{2}):(\d{2}) GMT$/
/** `Sun Nov  6 08:49:37 1994`: obsolete likewise. */
const ASCTIME = /^[A-Z][a-z]{2} ([A-Z][a-z]{2}) ([ \d]\d) (\d{2}):(\d{2}):(\d{2}) (\d{4})$/

/** A delay in seconds has this many digits at most; nine of them are thirty years. */
const MAX_DIGITS = 9

/**
 * How long a `Retry-After` header (RFC 9110, 10.2.3) asks to wait, in milliseconds from `nowMillis`: a number of seconds, or
 * a date in any of the three forms that 5.6.7 obliges a recipient to read. A date that has passed is 0. Anything else, the
 * lenient forms of `Date.parse` included, is null: the peer asked for nothing.
 */
export const retryAfterMillis = (header: string, nowMillis: number): number | null => {
  const text = header.trim()
  if (/^\d+$/.test(text)) return text.length > MAX_DIGITS ? Number.MAX_SAFE_INTEGER : Number(text) * 1000
  const at = httpDateMillis(text, nowMillis)
  return at === null ? null : Math.max(0, at - nowMillis)
}

const httpDateMillis = (text: string, nowMillis: number): number | null => {
  const imf = IMF_FIXDATE.exec(text)
  if (imf !== null) return utc(imf[3], imf[2], imf[1], imf[4], imf[5], imf[6])
  const asctime = ASCTIME.exec(text)
  if (asctime !== null) return utc(asctime[6], asctime[1], asctime[2], asctime[3], asctime[4], asctime[5])
  const rfc850 = RFC_850.exec(text)
  if (rfc850 === null) return null
  // A year of two digits that seems over 50 years ahead is the last such year that has passed (RFC 9110, 5.6.7).
  const thisYear = Math.floor(1970 + nowMillis / 31_556_952_000)
  const year = Math.floor(thisYear / 100) * 100 + Number(rfc850[3])
  const past = year > thisYear + 50 ? year - 100 : year
  return utc(String(past), rfc850[2], rfc850[1], rfc850[4], rfc850[5], rfc850[6])
}

type Part = string | undefined

const utc = (year: Part, month: Part, day: Part, hour: Part, minute: Part, second: Part): number | null => {
  const monthIndex = MONTHS.indexOf(month ?? "")
  if (monthIndex < 0 || Number(hour) > 23 || Number(minute) > 59 || Number(second) > 60) return null
  const midnight = Date.UTC(Number(year), monthIndex, Number(day))
  // `Date.UTC` carries the 31st of a month of 30 days over; such a day there is none of.
  if (new Date(midnight).getUTCDate() !== Number(day)) return null
  return midnight + (Number(hour) * 3600 + Number(minute) * 60 + Number(second)) * 1000
}
