// Runs named tests one after the other, prints a line `pass NAME` or `fail NAME why` for each, and ends the process.
'use strict';

exports.run = async (tests) => {
  // A connection that the server closes is reported where nobody waits.
  process.on('uncaughtException', (error) => console.error(error));
  for (const [name, test] of Object.entries(tests)) {
    let timer;
    try {
      // A pending timer also keeps the process alive where a client waits for nothing any more.
      const late = new Promise((_, failed) => { timer = setTimeout(() => failed(new Error('no answer within 10 s')), 10000); });
      await Promise.race([test(), late]);
      console.log(`pass ${name}`);
    } catch (error) {
      console.log(`fail ${name} ${JSON.stringify(error.message)}`);
    }
    clearTimeout(timer);
  }
  process.exit(0);
};
