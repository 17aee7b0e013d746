/** The first port that needs no privileges to listen on; below it only 443 is accepted. */
const FIRST_UNPRIVILEGED = 1024
const LAST_PORT = 65_535

/** Ports from 1024 on that a browser does not fetch from ("bad port", WHATWG Fetch, 2.9). */
const badPorts: ReadonlyArray<number> = [
  1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697,
  10_080
]

/**
 * Default ports of services that often answer without authentication: a request body is enough to write to some of these. Ports that web
 * services and collectors use too stay open on purpose, such as 3000, 4317, 4318, 8000, 8080, 8200, 8443, 9000 and 9443.
 */
const servicePorts: Readonly<Record<string, ReadonlyArray<number>>> = {
  databases: [
    1433, 1434, 1521, 1522, 1526, 2483, 2484, 3050, 3306, 3351, 5432, 5433, 5984, 6432, 6984, 7199, 7474,
    7687, 8086, 8087, 8123, 8529, 9042, 9142, 9160, 9200, 9300, 26_257, 27_017, 27_018, 27_019, 27_020,
    28_015, 28_017, 29_015, 33_060, 50_000
  ],
  caches: [6379, 6380, 11_207, 11_210, 11_211, 11_212, 11_214, 11_215, 16_379, 26_379],
  brokers: [
    1414, 1883, 4222, 4369, 5671, 5672, 6222, 6650, 6651, 8161, 8222, 8883, 9092, 9093, 9094, 9876, 10_911,
    15_671, 15_672, 25_672, 61_613, 61_614, 61_616
  ],
  orchestrators: [
    2181, 2375, 2376, 2377, 2379, 2380, 2888, 3888, 4001, 4646, 4647, 4648, 5050, 5051, 6443, 7946, 8300,
    8301, 8302, 8500, 8501, 8502, 8503, 8600, 10_248, 10_249, 10_250, 10_255, 10_256, 10_257, 10_259
  ]
}

const refusedPorts: ReadonlySet<number> = new Set([...badPorts, ...Object.values(servicePorts).flat()])

/** Whether a port may be requested at an address that is not on the allowlist. */
export const isOpenPort = (port: number): boolean =>
  port === 443 || (port >= FIRST_UNPRIVILEGED && port <= LAST_PORT && !refusedPorts.has(port))
