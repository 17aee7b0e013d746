/** Comma-separated values: RFC 4180, with fields that a spreadsheet would evaluate as formulas made harmless. */

/** The value of a field. A number or boolean is written as it is; an object or array as JSON. */
export type CsvValue = string | number | boolean | null | object

/**
 * Where a spreadsheet takes text as a formula (OWASP: CSV injection): at the beginning of a field, and after what separates fields or
 * records in other countries and programs, within a quoted field too. The last four characters are the full-width forms, which some
 * spreadsheets treat alike.
 */
const FORMULA = /(?<=^|[;\t\r\n]"*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])|^(?=[\t\r\n])/gu

const SPECIAL = /[",;\t\r\n]/u

const quoted = (text: string): string => (SPECIAL.test(text) ? `"${text.replaceAll('"', '""')}"` : text)

/** One field. A formula gets a leading apostrophe, so that a spreadsheet reads it as text. */
export const csvField = (value: CsvValue): string => {
  if (value === null) return ""
  if (typeof value === "number" || typeof value === "boolean") return String(value)
  const text = typeof value === "string" ? value : JSON.stringify(value)
  return quoted(text.replace(FORMULA, "'"))
}

/** One record, without its line end. */
export const csvFields = (values: ReadonlyArray<CsvValue>): string => values.map(csvField).join(",")

/** One record, with its line end. */
export const csvRecord = (values: ReadonlyArray<CsvValue>): string => `${csvFields(values)}\r\n`
