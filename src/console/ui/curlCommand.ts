/** Requests of the public API as commands for a shell. */

/** A text as one word of a POSIX shell. */
const shellWord = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** Like `shellWord`, with the values of `variables` of the shell in place of `$NAME`. */
const shellTemplate = (text: string, variables: ReadonlyArray<string>): string =>
  variables.length === 0
    ? shellWord(text)
    : text
        .split(new RegExp(`(\\$(?:${variables.join("|")})\\b)`))
        .filter((part) => part !== "")
        .map((part) => (variables.includes(part.slice(1)) ? `"${part}"` : shellWord(part)))
        .join("")

/**
 * A curl command for an operation of the API. The key is a variable of the shell: the page does not have the key, and a copied command
 * should not contain one.
 */
export const curlCommand = (options: {
  readonly origin: string
  readonly path: string
  readonly method?: "GET" | "POST" | "PUT" | "DELETE"
  /** The JSON body. */
  readonly body?: object
  /** Names of variables of the shell that occur in the path or the body as `$NAME`. */
  readonly variables?: ReadonlyArray<string>
}): string => {
  const { body, method = "GET", origin, path, variables = [] } = options
  return [
    `curl ${method === "GET" ? "" : `-X ${method} `}${shellTemplate(origin + path, variables)}`,
    '-H "Authorization: Bearer $COUNTERSIGN_API_KEY"',
    ...(body === undefined
      ? []
      : ["-H 'Content-Type: application/json'", `-d ${shellTemplate(JSON.stringify(body), variables)}`])
  ].join(" \\\n  ")
}
