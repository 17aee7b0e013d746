/** Cuts a text that is longer than `max` UTF-16 code units, without splitting a character. `suffix`, which counts, marks a text that was cut. */
export const cutText = (text: string, max: number, suffix = ""): string =>
  text.length <= max ? text : text.slice(0, max - suffix.length).replace(/[\uD800-\uDBFF]$/u, "") + suffix
