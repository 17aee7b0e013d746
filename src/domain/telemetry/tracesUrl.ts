/** The default path for traces (OTLP 1.x, "OTLP/HTTP Request"). */
const TRACES_PATH = "/v1/traces"

/**
 * Returns the URL that spans are sent to: the given URL, with the default path if its path is empty or `/`. Text that is not a URL is
 * returned unchanged for the URL check to refuse.
 */
export const tracesUrl = (text: string): string => {
  const [, origin, rest = ""] = /^([a-z][a-z0-9+.-]*:\/\/[^/?#\\]*)\/?([?#].*)?$/i.exec(text) ?? []
  return origin === undefined ? text : `${origin}${TRACES_PATH}${rest}`
}
