import type { OrgId } from "../../../domain/Ids.ts"

/** Room in memory, in characters, that organizations share. */
export interface SharedRoom {
  /** Whether there is room for what an organization adds. */
  readonly has: (org_id: OrgId, characters: number) => boolean
  readonly take: (org_id: OrgId, characters: number) => void
  readonly giveBack: (org_id: OrgId, characters: number) => void
}

/** One organization has half of it at most: its backlog must not take the room of all others. */
export const makeSharedRoom = (size: number): SharedRoom => {
  const taken = new Map<OrgId, number>()
  let all = 0
  return {
    has: (org_id, characters) =>
      all + characters <= size && (taken.get(org_id) ?? 0) + characters <= size / 2,
    take: (org_id, characters) => {
      taken.set(org_id, (taken.get(org_id) ?? 0) + characters)
      all += characters
    },
    giveBack: (org_id, characters) => {
      const own = (taken.get(org_id) ?? 0) - characters
      if (own > 0) taken.set(org_id, own)
      else taken.delete(org_id)
      all -= characters
    }
  }
}
