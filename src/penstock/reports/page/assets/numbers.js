// Numbers as text; independent of the reader's locale, as are the numbers of the terminal.
const ABSENT = "–";

function number(value) {
  return value === undefined || value === null
    ? ABSENT
    : value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

function kib(bytes) {
  const size = bytes / 1024;
  return `${size.toLocaleString("en-US", size < 100 ? { minimumFractionDigits: 2, maximumFractionDigits: 2 } : { maximumFractionDigits: 0 })} KiB`;
}

/** Return bytes with KiB beside them. */
function bytes(value) {
  return `${number(value)} bytes (${kib(value)})`;
}

function fixed(value, digits) {
  return value === undefined || value === null || !Number.isFinite(value)
    ? ABSENT
    : value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function percent(share, digits = 1) {
  return share === undefined || share === null ? ABSENT : `${fixed(100 * share, digits)} %`;
}

/** Return the distance between marks of an axis of bytes: a power of two. */
function byteUnit(top, marks) {
  let unit = 1;
  while (top / unit > marks) unit *= 2;
  return unit;
}
