/** A CRC-64 that continues from chunk to chunk. */
export interface RunningCrc64 {
  update(data: Uint8Array): void;
  /** Returns the CRC-64 of everything so far: eight bytes in the order of the service. */
  digest(): Buffer;
}

const POLYNOMIAL = 0x9a6c9329ac4bc9b5n;
const STRIDE = 8;

// The tables hold halves of 32 bits. A BigInt per byte would be a hundred times slower.
const LOW = new Int32Array(STRIDE * 256);
const HIGH = new Int32Array(STRIDE * 256);
fillTables();

/**
 * Fills the tables for eight bytes at a step ("slicing by 8"). Table n is for a byte that n other
 * bytes follow.
 */
function fillTables(): void {
  const ofByte = Array.from({ length: 256 }, (_, byte) => {
    let value = BigInt(byte);
    for (let bit = 0; bit < 8; bit++) value = value & 1n ? (value >> 1n) ^ POLYNOMIAL : value >> 1n;
    return value;
  });
  let values = ofByte;
  for (let table = 0; table < STRIDE; table++) {
    for (const [byte, value] of values.entries()) {
      LOW[table * 256 + byte] = Number(BigInt.asIntN(32, value));
      HIGH[table * 256 + byte] = Number(BigInt.asIntN(32, value >> 32n));
    }
    values = values.map((value) => (ofByte[Number(value & 0xffn)] as bigint) ^ (value >> 8n));
  }
}

/**
 * Starts the CRC-64 of Azure Storage, also known as CRC-64/NVME. Node has no implementation of it.
 */
export function startCrc64(): RunningCrc64 {
  let low = -1;
  let high = -1;
  return {
    update(data) {
      [low, high] = carryOn(low, high, data);
    },
    digest() {
      const bytes = Buffer.alloc(8);
      bytes.writeInt32LE(~low, 0);
      bytes.writeInt32LE(~high, 4);
      return bytes;
    },
  };
}

function carryOn(low: number, high: number, data: Uint8Array): [number, number] {
  const byte = (at: number) => data[at] as number;
  const end = data.length - (data.length % STRIDE);
  let at = 0;
  for (; at < end; at += STRIDE) {
    const first =
      low ^ (byte(at) | (byte(at + 1) << 8) | (byte(at + 2) << 16) | (byte(at + 3) << 24));
    const second =
      high ^ (byte(at + 4) | (byte(at + 5) << 8) | (byte(at + 6) << 16) | (byte(at + 7) << 24));
    low = lookUp(LOW, first, second);
    high = lookUp(HIGH, first, second);
  }
  for (; at < data.length; at++) {
    const entry = (low ^ byte(at)) & 0xff;
    low = ((low >>> 8) | (high << 24)) ^ (LOW[entry] as number);
    high = (high >>> 8) ^ (HIGH[entry] as number);
  }
  return [low, high];
}

function lookUp(tables: Int32Array, first: number, second: number): number {
  const entry = (table: number, byte: number) => tables[table * 256 + byte] as number;
  return (
    entry(7, first & 0xff) ^
    entry(6, (first >>> 8) & 0xff) ^
    entry(5, (first >>> 16) & 0xff) ^
    entry(4, first >>> 24) ^
    entry(3, second & 0xff) ^
    entry(2, (second >>> 8) & 0xff) ^
    entry(1, (second >>> 16) & 0xff) ^
    entry(0, second >>> 24)
  );
}
