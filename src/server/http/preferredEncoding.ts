/** The codings that responses are compressed with, the smaller one first. */
export type ContentCoding = "br" | "gzip"

/** The weight of an entry, from 0 to 1: 1 if it names none, 0 if it is malformed. */
const weightOf = (parameters: ReadonlyArray<string>): number => {
  const weight = parameters.find((parameter) => parameter.startsWith("q="))
  if (weight === undefined) return 1
  return /^q=(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/.test(weight) ? Number(weight.slice(2)) : 0
}

/** The most entries of a header that are read. Browsers send five. */
const MAX_ENTRIES = 20

/** The weights of the names in a header such as `Accept` or `Accept-Encoding` (RFC 9110, 12.4.2). */
export const weightsOf = (accepted: string): ReadonlyMap<string, number> => {
  const weights = new Map<string, number>()
  for (const entry of accepted.toLowerCase().split(",", MAX_ENTRIES)) {
    const [name = "", ...parameters] = entry.split(";").map((part) => part.replaceAll(/\s/g, ""))
    if (name !== "") weights.set(name === "x-gzip" ? "gzip" : name, weightOf(parameters))
  }
  return weights
}

/**
 * The coding that a client prefers of the available ones, by the weights of its `Accept-Encoding` header (RFC 9110, 12.5.3); of
 * equal weights, the one that is listed first here. Without an acceptable one the response is sent as it is.
 */
export const preferredEncoding = (
  accepted: string,
  available: ReadonlyArray<ContentCoding> = ["br", "gzip"]
): ContentCoding | "identity" => {
  const weights = weightsOf(accepted)
  let chosen: ContentCoding | "identity" = "identity"
  // A client that does not name `identity` accepts it, but prefers every coding that it names.
  let best = weights.get("identity") ?? 0
  for (const coding of available) {
    const weight = weights.get(coding) ?? weights.get("*") ?? 0
    const isBetter = chosen === "identity" ? weight >= best && weight > 0 : weight > best
    if (isBetter) {
      chosen = coding
      best = weight
    }
  }
  return chosen
}
