// Query strings, both ways. No dependencies.

const decode = text => decodeURIComponent(text.replace(/\+/g, ' '))

/** 'a=1&b=2' -> { a: '1', b: '2' }. A leading '?' is ignored. */
function parseQuery(text) {
    const found = {};
    for (const pair of text.replace(/^\?/, '').split('&')) {
        if (!pair) continue;
        const [key, value = ''] = pair.split('=').map(decode);
        found[key] = key in found ? [].concat(found[key], value) : value;
    }
    return found;
}

/** { a: '1', b: ['2', '3'] } -> 'a=1&b=2&b=3' */
function formatQuery(values) {
    const pairs = [];
    for (const key of Object.keys(values)) {
        const all = [].concat(values[key]);   // one or many
        for (const value of all) pairs.push(encodeURIComponent(key) + '=' + encodeURIComponent(value));
    }
    return pairs.join('&');
}

module.exports = { parseQuery, formatQuery };
