/** Where OTLP/HTTP takes traces unless a collector says otherwise (OTLP 1.x, "OTLP/HTTP Request"). */
const TRACES_PATH = "/v1/traces"

/**
 * Where spans are sent, of a URL as its owner gave it: as it is; where its path is empty, or no more than `/`, the one that OTLP has. What
 * is no URL is left to whoever judges it.
 */
export const tracesUrl = (text: string): string => {
  const [, origin, rest = ""] = /^([a-z][a-z0-9+.-]*:\/\/[^/?#\\]*)\/?([?#].*)?$/i.exec(text) ?? []
  return origin === undefined ? text : `${origin}${TRACES_PATH}${rest}`
}
