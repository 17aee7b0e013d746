/** Decodes a position in the write-ahead log (`0/2000028`); undefined if the text is not one. */
export const parseLsn = (text: string): bigint | undefined => {
  const parts = /^([0-9A-F]{1,8})\/([0-9A-F]{1,8})$/.exec(text)
  return parts === null ? undefined : (BigInt(`0x${parts[1] ?? ""}`) << 32n) | BigInt(`0x${parts[2] ?? ""}`)
}

const hex = (value: bigint): string => value.toString(16).toUpperCase().padStart(8, "0")

/** The name of a segment's file in `pg_wal`. */
const segmentName = (timeline: number, segment: bigint, segmentBytes: bigint): string => {
  const perFile = 0x1_0000_0000n / segmentBytes
  return `${hex(BigInt(timeline))}${hex(segment / perFile)}${hex(segment % perFile)}`
}

/** The files of the write-ahead log that contain the positions from `start` up to `end`, exclusive. */
export const walSegments = (range: {
  readonly timeline: number
  readonly start: bigint
  readonly end: bigint
  /** Bytes of one file, `wal_segment_size`. */
  readonly segmentBytes: bigint
}): ReadonlyArray<string> => {
  const { end, segmentBytes, start, timeline } = range
  const names: Array<string> = []
  const last = (end - 1n) / segmentBytes
  for (let segment = start / segmentBytes; segment <= last; segment++) {
    names.push(segmentName(timeline, segment, segmentBytes))
  }
  return names
}
